//! How many cases of a randomized or exhaustive test one run covers.

/// Whether the long proofs are asked for, as in `make test-long`.
const LONG: &str = "REFDB_TEST_LONG";

fn is_long() -> bool {
    std::env::var_os(LONG).is_some()
}

/// The size of a random test: `sample` in `make test`, `all` in `make test-long`.
pub fn rounds(sample: usize, all: usize) -> usize {
    debug_assert!(sample <= all, "a sample is a part");
    if is_long() { all } else { sample }
}

/// The stride of an exhaustive test: this number in `make test`, and one in `make test-long`, which takes all cases.
pub fn every(number: usize) -> usize {
    debug_assert!(number > 0, "a stride goes on");
    if is_long() { 1 } else { number }
}
