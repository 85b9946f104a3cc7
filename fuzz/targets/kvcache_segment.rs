//! Segment files of the key-value cache. No bytes may lead outside the file, and checked content is as it was written.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| refdb_kvcache::fuzzing::segment(bytes));
