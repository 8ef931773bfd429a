"""Documents of `plan`, one function a verb: from an answer to blocks."""
