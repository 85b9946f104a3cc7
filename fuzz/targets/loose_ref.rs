//! The file of a loose ref.
#![no_main]

use refdb::{HashKind, files::parse_loose};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    for hash in [HashKind::Sha1, HashKind::Sha256] {
        let _ = parse_loose(hash, bytes);
    }
});
