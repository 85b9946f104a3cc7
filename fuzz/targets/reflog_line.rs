//! A line of a reflog's file.
#![no_main]

use refdb::{HashKind, files::parse_log_line};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    for hash in [HashKind::Sha1, HashKind::Sha256] {
        let Some(entry) = parse_log_line(hash, bytes) else { continue };
        assert_eq!([entry.old.kind(), entry.new.kind()], [hash, hash]);
        assert!(bytes.ends_with(&entry.message));
    }
});
