"""Stages and milestones of a board, and the conditions of stages and tasks."""
