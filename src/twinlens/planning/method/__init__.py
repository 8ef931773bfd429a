"""Method: prompt, retrieval, fine-tuning or training from scratch, by what is needed and what each costs."""
