-- The protocols that participants speak, by name
ALTER TABLE participant ADD COLUMN protocols TEXT NOT NULL DEFAULT '[]';
