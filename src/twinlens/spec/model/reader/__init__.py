"""Readers: one function per Hugging Face model type, from config to shape."""
