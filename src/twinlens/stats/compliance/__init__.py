"""Compliance tests of a server: rulings after MLPerf Inference, one file for each test.

https://github.com/mlcommons/inference/tree/master/compliance: TEST04 (a repeated sample may be at most 10 % faster),
TEST06 (first token, one end of sequence at most, as many tokens as reported), TEST07 (accuracy while performance is
measured), TEST09 (mean output length within 10 % of the reference). Theirs read token ids inside the system under
test and know the model; ours see only what comes over HTTP, so each says what stands in for what.
"""
