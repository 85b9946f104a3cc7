//! Segment files of the key-value cache: no bytes may lead outside the file, and what passes the checks is what was
//! written.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| refdb_kvcache::fuzzing::segment(bytes));
