"""Claims: figures in a sentence, computed again from theory, with what the sentence leaves out."""
