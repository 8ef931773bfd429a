"""Verbs that judge: evidence packs and their check, answers, claims, and Twinlens itself."""
