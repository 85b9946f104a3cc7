//! A whole reftable: as it is, and with a sound footer, whose checksum a fuzzer would hardly guess.
#![no_main]

use refdb_testkit::exercise;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    exercise::reftable(bytes);
    let mut mended = bytes.to_vec();
    exercise::mend_checksum(&mut mended);
    exercise::reftable(&mended);
});
