-- A file with two boards as the store left it at schema 8: debates, votes, versions, what is held, owed and archived.
PRAGMA application_id=1111641411;
PRAGMA user_version=8;
BEGIN TRANSACTION;
CREATE TABLE agent (
    board INTEGER NOT NULL,
    name TEXT NOT NULL,
    posts INTEGER NOT NULL,
    first_seen INTEGER NOT NULL,
    last_seen INTEGER NOT NULL,
    PRIMARY KEY (board, name)
) STRICT, WITHOUT ROWID;
INSERT INTO "agent" VALUES(1,'alice',8,1767268800000000,1767268809000000);
INSERT INTO "agent" VALUES(1,'bob',5,1767268801000000,1767268809000000);
INSERT INTO "agent" VALUES(1,'carol',3,1767268801000000,1767268809000000);
INSERT INTO "agent" VALUES(1,'dora',1,1767268800000000,1767268809000000);
INSERT INTO "agent" VALUES(2,'erin',2,1767268809000000,1767268809000000);
CREATE TABLE board (
    no INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    title TEXT NOT NULL,
    parent TEXT,
    lifecycle TEXT NOT NULL,
    config TEXT NOT NULL,
    core TEXT NOT NULL,
    seq INTEGER NOT NULL,
    last_number INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    working_items INTEGER NOT NULL,
    working_tokens INTEGER NOT NULL,
    archived_items INTEGER NOT NULL
, private_items INTEGER NOT NULL DEFAULT 0, private_tokens INTEGER NOT NULL DEFAULT 0, pressure INTEGER NOT NULL DEFAULT 0) STRICT;
INSERT INTO "board" VALUES(1,'main','main',NULL,'open','{"ceiling":2,"core_tokens":1000,"debate_expiry_seconds":0,"hard_ceiling":4,"high_water":0.8,"low_water":0.6,"policy":"token-importance","quorum":2,"steps":["resolved","logs","threads","importance"],"summarise_over":4,"summariser":"default","summary_wait_seconds":300,"target_tokens":200,"tokenizer":"o200k_base","watch_lease_seconds":86400}','{"constraints":["never x"],"flags":{"f":true},"objective":"the aim","version":1}',44,19,1767268800000000,15,40,4,1,2,0);
INSERT INTO "board" VALUES(2,'second','below','main','open','{"ceiling":2,"core_tokens":1000,"debate_expiry_seconds":0,"hard_ceiling":4,"high_water":0.8,"low_water":0.6,"policy":"token-importance","quorum":0,"steps":["resolved","logs","threads","importance"],"summarise_over":4,"summariser":"default","summary_wait_seconds":300,"target_tokens":6000,"tokenizer":"o200k_base","watch_lease_seconds":86400}','{"constraints":[],"flags":{},"objective":"","version":0}',6,2,1767268809000000,1,3,1,0,0,0);
CREATE TABLE concern (
    board INTEGER NOT NULL,
    agent TEXT NOT NULL,
    seq INTEGER NOT NULL,
    item INTEGER NOT NULL,
    PRIMARY KEY (board, agent, seq)
) STRICT, WITHOUT ROWID;
INSERT INTO "concern" VALUES(1,'alice',6,2);
INSERT INTO "concern" VALUES(1,'alice',11,5);
INSERT INTO "concern" VALUES(1,'alice',13,6);
INSERT INTO "concern" VALUES(1,'alice',15,7);
INSERT INTO "concern" VALUES(1,'alice',16,1);
INSERT INTO "concern" VALUES(1,'alice',19,9);
INSERT INTO "concern" VALUES(1,'alice',21,8);
INSERT INTO "concern" VALUES(1,'alice',22,9);
INSERT INTO "concern" VALUES(1,'alice',34,15);
INSERT INTO "concern" VALUES(1,'alice',43,19);
INSERT INTO "concern" VALUES(1,'bob',21,8);
INSERT INTO "concern" VALUES(1,'bob',23,8);
INSERT INTO "concern" VALUES(1,'bob',32,10);
INSERT INTO "concern" VALUES(1,'carol',8,3);
INSERT INTO "concern" VALUES(1,'carol',24,10);
INSERT INTO "concern" VALUES(1,'dora',6,2);
INSERT INTO "concern" VALUES(1,'dora',7,3);
INSERT INTO "concern" VALUES(1,'dora',10,5);
INSERT INTO "concern" VALUES(1,'dora',11,5);
INSERT INTO "concern" VALUES(1,'dora',12,5);
INSERT INTO "concern" VALUES(1,'dora',24,10);
CREATE TABLE debate (
    board INTEGER NOT NULL,
    id INTEGER NOT NULL,
    root INTEGER NOT NULL,
    state TEXT NOT NULL,
    opened_by TEXT NOT NULL,
    explicit INTEGER NOT NULL,
    opened_at INTEGER NOT NULL,
    closed_by TEXT,
    closed_at INTEGER,
    reason TEXT NOT NULL, outcome TEXT NOT NULL DEFAULT '', moved_at INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (board, id),
    FOREIGN KEY (board, root) REFERENCES item(board, number)
) STRICT, WITHOUT ROWID;
INSERT INTO "debate" VALUES(1,14,1,'OPEN','carol',0,1767268806000000,NULL,NULL,'','',1767268809000000);
INSERT INTO "debate" VALUES(1,20,8,'DECIDED','bob',0,1767268806000000,'dora',1767268809000000,'it is so','',1767268806000000);
CREATE TABLE debate_critique (
    board INTEGER NOT NULL,
    critique INTEGER NOT NULL,
    debate INTEGER NOT NULL,
    PRIMARY KEY (board, debate, critique)
) STRICT, WITHOUT ROWID;
INSERT INTO "debate_critique" VALUES(1,6,14);
INSERT INTO "debate_critique" VALUES(1,9,20);
INSERT INTO "debate_critique" VALUES(1,19,14);
CREATE TABLE edge (
    board INTEGER NOT NULL,
    source INTEGER NOT NULL,
    kind TEXT NOT NULL,
    target INTEGER NOT NULL,
    PRIMARY KEY (board, source, kind, target),
    FOREIGN KEY (board, source) REFERENCES item(board, number) DEFERRABLE INITIALLY DEFERRED,
    FOREIGN KEY (board, target) REFERENCES item(board, number) DEFERRABLE INITIALLY DEFERRED
) STRICT, WITHOUT ROWID;
INSERT INTO "edge" VALUES(1,6,'critiques',1);
INSERT INTO "edge" VALUES(1,19,'critiques',1);
INSERT INTO "edge" VALUES(1,4,'depends_on',1);
INSERT INTO "edge" VALUES(1,7,'depends_on',1);
INSERT INTO "edge" VALUES(1,2,'supports',1);
INSERT INTO "edge" VALUES(1,10,'derived_from',3);
INSERT INTO "edge" VALUES(1,9,'critiques',8);
INSERT INTO "edge" VALUES(1,12,'supersedes',11);
INSERT INTO "edge" VALUES(1,16,'derived_from',14);
INSERT INTO "edge" VALUES(1,15,'replies_to',14);
INSERT INTO "edge" VALUES(1,16,'derived_from',15);
CREATE TABLE endorsement (
    board INTEGER NOT NULL,
    item INTEGER NOT NULL,
    agent TEXT NOT NULL,
    tags TEXT NOT NULL,
    metadata TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (board, item, agent),
    FOREIGN KEY (board, item) REFERENCES item(board, number)
) STRICT, WITHOUT ROWID;
INSERT INTO "endorsement" VALUES(1,3,'dora','["mine"]','{}',1767268802000000);
CREATE TABLE event (
    board INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    event TEXT NOT NULL,
    item INTEGER,
    type TEXT,
    key TEXT,
    version INTEGER,
    thread INTEGER,
    agent TEXT NOT NULL,
    tags TEXT NOT NULL,
    at INTEGER NOT NULL,
    data TEXT NOT NULL,
    owner TEXT NOT NULL,
    concerns TEXT NOT NULL,
    PRIMARY KEY (board, seq)
) STRICT, WITHOUT ROWID;
INSERT INTO "event" VALUES(1,1,'board.created',NULL,NULL,NULL,NULL,NULL,'alice','[]',1767268800000000,'{"board":"main"}','','[]');
INSERT INTO "event" VALUES(1,2,'board.changed',NULL,NULL,NULL,NULL,NULL,'alice','[]',1767268800000000,'{"settings":["quorum","target_tokens"]}','','[]');
INSERT INTO "event" VALUES(1,3,'watch.began',NULL,NULL,NULL,NULL,NULL,'dora','[]',1767268800000000,'{"topic":"type:FACT","watcher":"dora"}','','[]');
INSERT INTO "event" VALUES(1,4,'watch.began',NULL,NULL,NULL,NULL,NULL,'dora','[]',1767268800000000,'{"topic":"key:plan:*","watcher":"dora"}','','[]');
INSERT INTO "event" VALUES(1,5,'item.posted',1,'HYPOTHESIS',NULL,1,1,'alice','["a","ü"]',1767268800000000,'{}','','[]');
INSERT INTO "event" VALUES(1,6,'item.posted',2,'FACT',NULL,1,2,'bob','[]',1767268801000000,'{"supports":["H-1"]}','','["alice","dora"]');
INSERT INTO "event" VALUES(1,7,'item.posted',3,'FACT',NULL,1,3,'carol','[]',1767268801000000,'{}','','["dora"]');
INSERT INTO "event" VALUES(1,8,'item.endorsed',3,'FACT',NULL,1,3,'dora','[]',1767268802000000,'{"tags":["mine"]}','','["carol"]');
INSERT INTO "event" VALUES(1,9,'item.posted',4,'FACT',NULL,1,4,'bob','[]',1767268802000000,'{"depends_on":["H-1"]}','bob','[]');
INSERT INTO "event" VALUES(1,10,'item.posted',5,'PLAN','plan:a',1,5,'alice','[]',1767268802000000,'{}','','["dora"]');
INSERT INTO "event" VALUES(1,11,'item.versioned',5,'PLAN','plan:a',2,5,'bob','[]',1767268804000000,'{}','','["alice","dora"]');
INSERT INTO "event" VALUES(1,12,'item.versioned',5,'PLAN','plan:a',3,5,'alice','["third"]',1767268806000000,'{}','','["dora"]');
INSERT INTO "event" VALUES(1,13,'item.posted',6,'CRITIQUE',NULL,1,1,'carol','[]',1767268806000000,'{"critiques":["H-1"]}','','["alice"]');
INSERT INTO "event" VALUES(1,14,'debate.opened',1,'HYPOTHESIS',NULL,1,1,'carol','["a","ü"]',1767268806000000,'{"critique":"C-6","watchers":["carol"]}','','["alice"]');
INSERT INTO "event" VALUES(1,15,'item.posted',7,'FACT',NULL,1,7,'dora','[]',1767268806000000,'{"depends_on":["H-1"]}','','["alice"]');
INSERT INTO "event" VALUES(1,16,'debate.voted',1,'HYPOTHESIS',NULL,1,1,'dora','["a","ü"]',1767268806000000,'{"against":0,"approve":true,"for":1,"owner":"dora","version":1}','','["alice"]');
INSERT INTO "event" VALUES(1,17,'obligation.added',2,'FACT',NULL,1,2,'alice','[]',1767268806000000,'{"watcher":"alice"}','','[]');
INSERT INTO "event" VALUES(1,18,'item.posted',8,'HYPOTHESIS',NULL,1,8,'alice','[]',1767268806000000,'{}','','[]');
INSERT INTO "event" VALUES(1,19,'item.posted',9,'CRITIQUE',NULL,1,8,'bob','[]',1767268806000000,'{"critiques":["H-8"]}','','["alice"]');
INSERT INTO "event" VALUES(1,20,'debate.opened',8,'HYPOTHESIS',NULL,1,8,'bob','[]',1767268806000000,'{"critique":"C-9","watchers":["bob"]}','','["alice"]');
INSERT INTO "event" VALUES(1,21,'debate.closed',8,'HYPOTHESIS',NULL,1,8,'dora','[]',1767268809000000,'{"reason":"it is so","state":"DECIDED"}','','["alice","bob"]');
INSERT INTO "event" VALUES(1,22,'obligation.waived',9,'CRITIQUE',NULL,1,8,'dora','[]',1767268809000000,'{"duty":"respond","reason":"debate DECIDED","watcher":"alice"}','','["alice"]');
INSERT INTO "event" VALUES(1,23,'obligation.waived',8,'HYPOTHESIS',NULL,1,8,'dora','[]',1767268809000000,'{"duty":"acknowledge","reason":"debate DECIDED","watcher":"bob"}','','["bob"]');
INSERT INTO "event" VALUES(1,24,'item.posted',10,'FACT',NULL,1,10,'bob','[]',1767268809000000,'{"derived_from":["F-3"]}','','["carol","dora"]');
INSERT INTO "event" VALUES(1,25,'item.posted',11,'LOG',NULL,1,11,'alice','[]',1767268809000000,'{}','','[]');
INSERT INTO "event" VALUES(1,26,'item.posted',12,'LOG',NULL,1,12,'alice','[]',1767268809000000,'{"supersedes":["L-11"]}','','[]');
INSERT INTO "event" VALUES(1,27,'item.superseded',11,'LOG',NULL,1,11,'alice','[]',1767268809000000,'{"by":"L-12"}','','[]');
INSERT INTO "event" VALUES(1,28,'item.posted',13,'LOG',NULL,1,13,'alice','[]',1767268809000000,'{}','','[]');
INSERT INTO "event" VALUES(1,29,'item.archived',13,'LOG',NULL,1,13,'system','[]',1767268809000000,'{"pass":29,"step":4,"why":"named"}','','[]');
INSERT INTO "event" VALUES(1,30,'prune.ended',NULL,NULL,NULL,NULL,NULL,'system','[]',1767268809000000,'{"after":28,"before":32,"moved":1,"pass":29}','','[]');
INSERT INTO "event" VALUES(1,31,'item.changed',3,'FACT',NULL,1,3,'carol','[]',1767268809000000,'{"status":["ACTIVE","WITHDRAWN"]}','','[]');
INSERT INTO "event" VALUES(1,32,'item.doubted',10,'FACT',NULL,1,10,'carol','[]',1767268809000000,'{"rests_on":["F-3 WITHDRAWN"]}','','["bob"]');
INSERT INTO "event" VALUES(1,33,'item.posted',14,'QUESTION',NULL,1,14,'alice','[]',1767268809000000,'{}','','[]');
INSERT INTO "event" VALUES(1,34,'item.posted',15,'ANSWER',NULL,1,14,'bob','[]',1767268809000000,'{"replies_to":["Q-14"]}','','["alice"]');
INSERT INTO "event" VALUES(1,35,'item.posted',16,'SUMMARY',NULL,1,14,'system','[]',1767268809000000,'{"summarises":2,"writer":"extractive"}','','[]');
INSERT INTO "event" VALUES(1,36,'item.archived',14,'QUESTION',NULL,1,14,'system','[]',1767268809000000,'{"pass":35,"step":3,"why":"summarised in S-16"}','','[]');
INSERT INTO "event" VALUES(1,37,'item.archived',15,'ANSWER',NULL,1,14,'system','[]',1767268809000000,'{"pass":35,"step":3,"why":"summarised in S-16"}','','[]');
INSERT INTO "event" VALUES(1,38,'prune.ended',NULL,NULL,NULL,NULL,NULL,'system','[]',1767268809000000,'{"after":33,"before":34,"moved":2,"pass":35}','','[]');
INSERT INTO "event" VALUES(1,39,'item.posted',17,'QUESTION',NULL,1,17,'alice','[]',1767268809000000,'{}','','[]');
INSERT INTO "event" VALUES(1,40,'summary.requested',17,'QUESTION',NULL,1,17,'system','[]',1767268809000000,'{"items":1,"thread":"Q-17","tokens":2}','','[]');
INSERT INTO "event" VALUES(1,41,'item.posted',18,'CONSTRAINT',NULL,1,18,'carol','[]',1767268809000000,'{}','','[]');
INSERT INTO "event" VALUES(1,42,'core.changed',NULL,NULL,NULL,NULL,NULL,'alice','[]',1767268809000000,'{"version":1}','','[]');
INSERT INTO "event" VALUES(1,43,'item.posted',19,'CRITIQUE',NULL,1,1,'bob','[]',1767268809000000,'{"critiques":["H-1"]}','','["alice"]');
INSERT INTO "event" VALUES(1,44,'debate.joined',1,'HYPOTHESIS',NULL,1,1,'bob','["a","ü"]',1767268809000000,'{"critique":"C-19"}','','["alice"]');
INSERT INTO "event" VALUES(2,1,'board.created',NULL,NULL,NULL,NULL,NULL,'erin','[]',1767268809000000,'{"board":"second"}','','[]');
INSERT INTO "event" VALUES(2,2,'item.posted',1,'FACT',NULL,1,1,'erin','[]',1767268809000000,'{}','','[]');
INSERT INTO "event" VALUES(2,3,'board.changed',NULL,NULL,NULL,NULL,NULL,'erin','[]',1767268809000000,'{"parent":"main","title":"below"}','','[]');
INSERT INTO "event" VALUES(2,4,'item.posted',2,'LOG',NULL,1,2,'erin','[]',1767268809000000,'{}','','[]');
INSERT INTO "event" VALUES(2,5,'item.archived',2,'LOG',NULL,1,2,'system','[]',1767268809000000,'{"pass":5,"step":4,"why":"named"}','','[]');
INSERT INTO "event" VALUES(2,6,'prune.ended',NULL,NULL,NULL,NULL,NULL,'system','[]',1767268809000000,'{"after":3,"before":4,"moved":1,"pass":5}','','[]');
CREATE TABLE finding (
    board INTEGER NOT NULL,
    fingerprint TEXT NOT NULL,
    number INTEGER NOT NULL,
    PRIMARY KEY (board, fingerprint, number)
) STRICT, WITHOUT ROWID;
INSERT INTO "finding" VALUES(1,'5d2bdb15f6130550c60f934d3b250ec18d0bbc9bb0b733e316b093eddc7a3b7a',10);
INSERT INTO "finding" VALUES(1,'70ad52c6d76b59b8138cbbe4ad387be3a29725407c8afe1ae5c479e79cb35387',7);
INSERT INTO "finding" VALUES(1,'89cc18232088b523cb73398cb8f6cebec1b73cf465791170bcba89df2ae29256',2);
INSERT INTO "finding" VALUES(1,'dd1b3c312cf7d816130354452e9629ce39355b0c534129dd26a08cd9a4502ede',1);
INSERT INTO "finding" VALUES(1,'f20ba3a99458ff8307b13b29dace2171bb93f3688c656e9a122d131a1dd637f8',8);
INSERT INTO "finding" VALUES(1,'fd6e56133636350967ca79593e134231081eb086c1b2d2c3064e29a455b651c3',3);
INSERT INTO "finding" VALUES(2,'3d50fb2d782db552fc412aadbc92267bd77168d0e3d57b8a3e7bc71e5903a71d',1);
CREATE TABLE held (
    board INTEGER NOT NULL,
    number INTEGER NOT NULL,
    debate INTEGER NOT NULL,
    source INTEGER NOT NULL,
    kind TEXT NOT NULL,
    target INTEGER NOT NULL,
    depth INTEGER NOT NULL,
    PRIMARY KEY (board, number)
) STRICT, WITHOUT ROWID;
INSERT INTO "held" VALUES(1,1,14,0,'',0,0);
INSERT INTO "held" VALUES(1,2,14,2,'supports',1,1);
INSERT INTO "held" VALUES(1,6,14,6,'critiques',1,1);
INSERT INTO "held" VALUES(1,19,14,19,'critiques',1,1);
CREATE TABLE idempotency (
    board INTEGER NOT NULL,
    agent TEXT NOT NULL,
    key TEXT NOT NULL,
    digest TEXT NOT NULL,
    answer TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (board, agent, key)
) STRICT, WITHOUT ROWID;
INSERT INTO "idempotency" VALUES(1,'carol','once','digest','[[3],7,[]]',1767268801000000);
CREATE TABLE item (
    board INTEGER NOT NULL REFERENCES board(no),
    number INTEGER NOT NULL,
    type TEXT NOT NULL,
    key TEXT,
    version INTEGER NOT NULL,
    status TEXT NOT NULL,
    zone TEXT NOT NULL,
    importance INTEGER NOT NULL,
    author TEXT NOT NULL,
    owner TEXT NOT NULL,
    text TEXT NOT NULL,
    tags TEXT NOT NULL,
    metadata TEXT NOT NULL,
    tokens INTEGER NOT NULL,
    sha256 TEXT NOT NULL,
    thread INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    ttl INTEGER,
    expires_at INTEGER,
    seq INTEGER NOT NULL,
    updated_by TEXT NOT NULL, superseded INTEGER NOT NULL DEFAULT 0, analysed INTEGER NOT NULL DEFAULT 0, debated INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (board, number)
) STRICT;
INSERT INTO "item" VALUES(1,1,'HYPOTHESIS',NULL,1,'DEBATED','working',3,'alice','','claim','["a","ü"]','{"n":1.5,"é":[null]}',1,'dd1b3c312cf7d816130354452e9629ce39355b0c534129dd26a08cd9a4502ede',1,1767268800000000,1767268806000000,NULL,NULL,14,'carol',0,0,0);
INSERT INTO "item" VALUES(1,2,'FACT',NULL,1,'ACTIVE','working',4,'bob','','two
lines, "quotes",  , 😀, it''s; -- <b>','[]','{}',8,'5682626260b6a6bcc24410c8eb21d1236f4cf0db4400a3a24baa96ab09e04fa1',2,1767268801000000,1767268801000000,NULL,NULL,6,'bob',0,0,0);
INSERT INTO "item" VALUES(1,3,'FACT',NULL,1,'WITHDRAWN','working',4,'carol','','same finding','[]','{}',2,'fd6e56133636350967ca79593e134231081eb086c1b2d2c3064e29a455b651c3',3,1767268801000000,1767268809000000,NULL,NULL,31,'carol',0,0,0);
INSERT INTO "item" VALUES(1,4,'FACT',NULL,1,'ACTIVE','working',4,'bob','bob','a secret','[]','{}',2,'984ca5162200734c592148f1820b71057f098573d138666b48663e4e30cd8d3a',4,1767268802000000,1767268802000000,NULL,NULL,9,'bob',0,0,0);
INSERT INTO "item" VALUES(1,5,'PLAN','plan:a',3,'ACTIVE','working',3,'alice','','v3','["third"]','{}',1,'e0d2747b9ab7abb6eb65e0373fa1b428a28bd6d8a2380106dcc080f58005ee14',5,1767268802000000,1767268806000000,86400000000,1767355206000000,12,'alice',0,0,0);
INSERT INTO "item" VALUES(1,6,'CRITIQUE',NULL,1,'ACTIVE','working',3,'carol','','no','[]','{}',1,'9390298f3fb0c5b160498935d79cb139aef28e1c47358b4bbba61862b9c26e59',1,1767268806000000,1767268806000000,NULL,NULL,13,'carol',0,0,0);
INSERT INTO "item" VALUES(1,7,'FACT',NULL,1,'ACTIVE','working',4,'dora','','leans on the claim','[]','{}',4,'70ad52c6d76b59b8138cbbe4ad387be3a29725407c8afe1ae5c479e79cb35387',7,1767268806000000,1767268806000000,NULL,NULL,15,'dora',0,0,0);
INSERT INTO "item" VALUES(1,8,'HYPOTHESIS',NULL,1,'ACTIVE','working',3,'alice','','argued and settled','[]','{}',3,'f20ba3a99458ff8307b13b29dace2171bb93f3688c656e9a122d131a1dd637f8',8,1767268806000000,1767268809000000,NULL,NULL,21,'dora',0,0,1);
INSERT INTO "item" VALUES(1,9,'CRITIQUE',NULL,1,'ACTIVE','working',3,'bob','','not so','[]','{}',2,'6ec5ae211770a41d0db547d3865e4225cfb965d7ffe578e32a3f2a35a5205df0',8,1767268806000000,1767268806000000,NULL,NULL,19,'bob',0,0,0);
INSERT INTO "item" VALUES(1,10,'FACT',NULL,1,'ACTIVE','working',4,'bob','','rests on it','[]','{}',3,'5d2bdb15f6130550c60f934d3b250ec18d0bbc9bb0b733e316b093eddc7a3b7a',10,1767268809000000,1767268809000000,NULL,NULL,24,'bob',0,0,0);
INSERT INTO "item" VALUES(1,11,'LOG',NULL,1,'ACTIVE','archive',2,'alice','','an old word about grapnels','[]','{}',5,'d56bb2b97285101f43f2b7e24500ddaab5cdbe0f757ab641ab0a2ec50c4df6e6',11,1767268809000000,1767268809000000,NULL,NULL,27,'alice',1,0,0);
INSERT INTO "item" VALUES(1,12,'LOG',NULL,1,'ACTIVE','working',2,'alice','','a new word','[]','{}',3,'d13aaeb958d1f78d93e4658289c162400f213e8b685260b5e96d752cc28e5564',12,1767268809000000,1767268809000000,NULL,NULL,26,'alice',0,0,0);
INSERT INTO "item" VALUES(1,13,'LOG',NULL,1,'ACTIVE','archive',2,'alice','','a log about periwinkles','[]','{}',4,'2a364b46f98a17d4b235155f54714a1e5f7652b9c96124df2b3438a790f399b7',13,1767268809000000,1767268809000000,NULL,NULL,29,'alice',0,0,0);
INSERT INTO "item" VALUES(1,14,'QUESTION',NULL,1,'ACTIVE','archive',3,'alice','','a thread','[]','{}',2,'d1280f6372072c1386a74ba4f57993243056dc86bcd722b17d045776483bbc68',14,1767268809000000,1767268809000000,NULL,NULL,36,'alice',0,0,0);
INSERT INTO "item" VALUES(1,15,'ANSWER',NULL,1,'ACTIVE','archive',4,'bob','','its answer','[]','{}',2,'b67a3ac51b91af4b3459a0c69808290cccc24526114a9bcfd868aeb4932b385c',14,1767268809000000,1767268809000000,NULL,NULL,37,'bob',0,0,0);
INSERT INTO "item" VALUES(1,16,'SUMMARY',NULL,1,'ACTIVE','working',3,'system','','both in short','[]','{"sources":["Q-14","A-15"]}',3,'8477ef6982b93a1a12998bf580da5f1a1ee3fa15d105d81d1b17bfa36a220f4e',14,1767268809000000,1767268809000000,NULL,NULL,35,'system',0,0,0);
INSERT INTO "item" VALUES(1,17,'QUESTION',NULL,1,'ACTIVE','working',3,'alice','','another thread','[]','{}',2,'89fa9d75d8d479e33f05641c194657f55553e8674cbfcfd9cc74f9a53dd6420a',17,1767268809000000,1767268809000000,NULL,NULL,39,'alice',0,0,0);
INSERT INTO "item" VALUES(1,18,'CONSTRAINT',NULL,1,'ACTIVE','working',5,'carol','','the law','[]','{}',2,'a0b8eb2fbe2f184bcf2b5bd4868980bbc45859a2220e3d64544938fa1148b30f',18,1767268809000000,1767268809000000,NULL,NULL,41,'carol',0,0,0);
INSERT INTO "item" VALUES(1,19,'CRITIQUE',NULL,1,'ACTIVE','working',3,'bob','','news for dora','[]','{}',3,'65bc20a03869d9c1fe1952a3c955506c6f8e61ca0c8d5e5eaf432d5031998fcd',1,1767268809000000,1767268809000000,NULL,NULL,43,'bob',0,0,0);
INSERT INTO "item" VALUES(2,1,'FACT',NULL,1,'ACTIVE','working',4,'erin','','on another board','[]','{}',3,'3d50fb2d782db552fc412aadbc92267bd77168d0e3d57b8a3e7bc71e5903a71d',1,1767268809000000,1767268809000000,NULL,NULL,2,'erin',0,0,0);
INSERT INTO "item" VALUES(2,2,'LOG',NULL,1,'ACTIVE','archive',2,'erin','','left','[]','{}',1,'360f84035942243c6a36537ae2f8673485e6c04455a0a85a0db19690f2541480',2,1767268809000000,1767268809000000,NULL,NULL,5,'erin',0,0,0);
CREATE TABLE item_use (
    board INTEGER NOT NULL,
    number INTEGER NOT NULL,
    reads INTEGER NOT NULL,
    last_read INTEGER NOT NULL,
    PRIMARY KEY (board, number),
    FOREIGN KEY (board, number) REFERENCES item(board, number)
) STRICT, WITHOUT ROWID;
INSERT INTO "item_use" VALUES(1,10,2,1767268809000000);
CREATE TABLE item_version (
    board INTEGER NOT NULL,
    number INTEGER NOT NULL,
    version INTEGER NOT NULL,
    text TEXT NOT NULL,
    tags TEXT NOT NULL,
    metadata TEXT NOT NULL,
    tokens INTEGER NOT NULL,
    sha256 TEXT NOT NULL,
    updated_at INTEGER NOT NULL,
    updated_by TEXT NOT NULL,
    PRIMARY KEY (board, number, version),
    FOREIGN KEY (board, number) REFERENCES item(board, number)
) STRICT;
INSERT INTO "item_version" VALUES(1,5,1,'v1','[]','{}',1,'3bfc269594ef649228e9a74bab00f042efc91d5acc6fbee31a382e80d42388fe',1767268802000000,'alice');
INSERT INTO "item_version" VALUES(1,5,2,'v2','[]','{}',1,'fb04dcb6970e4c3d1873de51fd5a50d7bb46b3383113602665c350ec40b5f990',1767268804000000,'bob');
CREATE TABLE lease (
    name TEXT PRIMARY KEY,
    holder TEXT NOT NULL,
    until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "lease" VALUES('pruner:main','somebody',1767268869000000);
CREATE TABLE obligation (
    board INTEGER NOT NULL,
    agent TEXT NOT NULL,
    item INTEGER NOT NULL,
    duty TEXT NOT NULL,
    debate INTEGER NOT NULL,
    state TEXT NOT NULL,
    reason TEXT NOT NULL,
    since INTEGER NOT NULL,
    PRIMARY KEY (board, agent, item, duty, debate),
    FOREIGN KEY (board, item) REFERENCES item(board, number)
) STRICT, WITHOUT ROWID;
INSERT INTO "obligation" VALUES(1,'alice',2,'acknowledge',0,'outstanding','',1767268806000000);
INSERT INTO "obligation" VALUES(1,'alice',6,'respond',14,'outstanding','',1767268806000000);
INSERT INTO "obligation" VALUES(1,'alice',9,'respond',20,'waived','debate DECIDED',1767268806000000);
INSERT INTO "obligation" VALUES(1,'alice',19,'respond',14,'outstanding','',1767268809000000);
INSERT INTO "obligation" VALUES(1,'bob',1,'acknowledge',14,'outstanding','',1767268809000000);
INSERT INTO "obligation" VALUES(1,'bob',8,'acknowledge',20,'waived','debate DECIDED',1767268806000000);
INSERT INTO "obligation" VALUES(1,'carol',1,'acknowledge',14,'outstanding','',1767268806000000);
CREATE TABLE outbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    board INTEGER NOT NULL,
    number INTEGER NOT NULL
) STRICT;
INSERT INTO "outbox" VALUES(1,1,11);
INSERT INTO "outbox" VALUES(2,1,13);
INSERT INTO "outbox" VALUES(3,1,14);
INSERT INTO "outbox" VALUES(4,1,15);
INSERT INTO "outbox" VALUES(5,2,2);
CREATE TABLE principal (
    agent TEXT PRIMARY KEY,
    owner TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "principal" VALUES('bob','acme');
INSERT INTO "principal" VALUES('carol','acme');
CREATE TABLE retraction (
    board INTEGER NOT NULL,
    item INTEGER NOT NULL,
    source INTEGER NOT NULL,
    kind TEXT NOT NULL,
    via INTEGER NOT NULL,
    status TEXT NOT NULL,
    successor INTEGER,
    seq INTEGER NOT NULL,
    PRIMARY KEY (board, item, source),
    FOREIGN KEY (board, item) REFERENCES item(board, number),
    FOREIGN KEY (board, source) REFERENCES item(board, number)
) STRICT, WITHOUT ROWID;
INSERT INTO "retraction" VALUES(1,10,3,'derived_from',3,'WITHDRAWN',NULL,32);
CREATE TABLE spreading (
    board INTEGER NOT NULL,
    source INTEGER NOT NULL,
    item INTEGER NOT NULL,
    after INTEGER NOT NULL,
    status TEXT NOT NULL,
    successor INTEGER,
    agent TEXT NOT NULL,
    PRIMARY KEY (board, source, item)
) STRICT, WITHOUT ROWID;
CREATE TABLE subscription (
    board INTEGER NOT NULL,
    id TEXT NOT NULL,
    agent TEXT NOT NULL,
    name TEXT NOT NULL,
    filter TEXT NOT NULL,
    cursor INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (board, id)
) STRICT, WITHOUT ROWID;
INSERT INTO "subscription" VALUES(1,'sub-p-J0NAsU','dora','news','{"not":{"agent":"bob"},"type":"CRITIQUE"}',42,1767268809000000);
CREATE TABLE summary_request (
    board INTEGER NOT NULL,
    thread INTEGER NOT NULL,
    item INTEGER NOT NULL,
    seen TEXT NOT NULL,
    seq INTEGER NOT NULL,
    opened_at INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    holder TEXT,
    held_until INTEGER,
    lease INTEGER NOT NULL,
    PRIMARY KEY (board, thread),
    FOREIGN KEY (board, item) REFERENCES item(board, number)
) STRICT, WITHOUT ROWID;
INSERT INTO "summary_request" VALUES(1,17,17,'{"17":39}',40,1767268809000000,1767272409000000,NULL,NULL,0);
CREATE TABLE vote (
    board INTEGER NOT NULL,
    debate INTEGER NOT NULL,
    owner TEXT NOT NULL,
    agent TEXT NOT NULL,
    version INTEGER NOT NULL,
    approve INTEGER NOT NULL,
    reason TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (board, debate, owner)
) STRICT, WITHOUT ROWID;
INSERT INTO "vote" VALUES(1,14,'dora','dora',1,1,'',1767268806000000);
CREATE TABLE watch (
    board INTEGER NOT NULL,
    agent TEXT NOT NULL,
    topic TEXT NOT NULL,
    since INTEGER NOT NULL,
    PRIMARY KEY (board, agent, topic)
) STRICT, WITHOUT ROWID;
INSERT INTO "watch" VALUES(1,'dora','key:plan:*',1767268800000000);
INSERT INTO "watch" VALUES(1,'dora','type:FACT',1767268800000000);
CREATE UNIQUE INDEX item_key ON item(board, owner, key) WHERE key IS NOT NULL;
CREATE INDEX item_expiry ON item(expires_at) WHERE expires_at IS NOT NULL AND zone = 'working';
CREATE INDEX item_law ON item(board, type) WHERE type IN ('CONSTRAINT', 'HOT_ISSUE') AND zone = 'working';
CREATE INDEX edge_target ON edge(board, target, kind, source);
CREATE INDEX event_item ON event(board, item, seq) WHERE item IS NOT NULL;
CREATE INDEX debate_open ON debate(board, id) WHERE state = 'OPEN';
CREATE INDEX debate_root ON debate(board, root, id);
CREATE INDEX debate_critique_item ON debate_critique(board, critique);
CREATE INDEX obligation_outstanding ON obligation(board, agent, item) WHERE state = 'outstanding';
CREATE INDEX obligation_debate ON obligation(board, debate);
CREATE INDEX subscription_agent ON subscription(board, agent);
CREATE INDEX outbox_item ON outbox(board, number);
CREATE INDEX watch_topic ON watch(board, topic, since);
CREATE INDEX watch_since ON watch(since);
CREATE INDEX debate_moved ON debate(moved_at) WHERE state = 'OPEN';
CREATE INDEX obligation_waiting ON obligation(since) WHERE state = 'outstanding' AND duty = 'acknowledge';
CREATE INDEX held_debate ON held(board, debate);
CREATE INDEX obligation_item ON obligation(board, item, state);
CREATE VIEW protected(board, number) AS
SELECT board, number FROM held
UNION ALL
SELECT board, item FROM obligation WHERE state = 'outstanding'
UNION ALL
SELECT board, number FROM item
WHERE zone = 'working' AND type IN ('CONSTRAINT', 'HOT_ISSUE') AND status IN ('ACTIVE', 'DEBATED');
CREATE INDEX item_done ON item(board, seq)
WHERE zone = 'working' AND (superseded = 1 OR status IN ('RESOLVED', 'WITHDRAWN', 'INVALIDATED'));
CREATE INDEX item_analysed ON item(board, seq) WHERE zone = 'working' AND type = 'LOG' AND analysed = 1;
CREATE INDEX item_due ON item(board, expires_at) WHERE expires_at IS NOT NULL AND zone = 'working';
CREATE INDEX item_settles ON item(board, thread)
WHERE zone = 'working' AND owner = ''
  AND (debated = 1 OR status = 'RESOLVED' OR (type IN ('DECISION', 'ANSWER') AND number <> thread));
CREATE INDEX item_thread_live ON item(board, thread, number) WHERE zone = 'working';
CREATE INDEX item_working ON item(board, importance, seq, owner, number) WHERE zone = 'working';
CREATE INDEX item_private ON item(board, owner) WHERE zone = 'working' AND owner <> '';
CREATE INDEX item_archived ON item(board, number, seq) WHERE zone = 'archive';
CREATE INDEX item_thread ON item(board, thread, number);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('outbox',5);
COMMIT;
