//! Blocks of a reftable, inside a header and a footer that are sound.
#![no_main]

use refdb_testkit::exercise;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    exercise::reftable_blocks(bytes);
});
