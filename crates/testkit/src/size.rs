//! Selects how many cases of a randomised or exhaustive test are covered in one run.

/// The environment variable that asks for the long tests; `make test-long` sets it.
const LONG: &str = "REFDB_TEST_LONG";

fn is_long() -> bool {
    std::env::var_os(LONG).is_some()
}

/// Returns the number of cases of a randomised test: `sample` in `make test`, and `all` in `make test-long`.
pub fn rounds(sample: usize, all: usize) -> usize {
    debug_assert!(sample <= all, "a sample is a part");
    if is_long() { all } else { sample }
}

/// Returns the stride of an exhaustive test: `number` in `make test`, and 1 in `make test-long`, which covers all
/// cases.
pub fn every(number: usize) -> usize {
    debug_assert!(number > 0, "a stride goes on");
    if is_long() { 1 } else { number }
}
