"""Participants: who takes part on a board, and what ends when they leave."""
