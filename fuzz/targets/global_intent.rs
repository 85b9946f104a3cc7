//! The intent of a transaction that a global ref database decides. The intent's checksum is corrected, so that the code
//! behind the check is reached.
#![no_main]

use bstr::ByteSlice;
use refdb::global::GlobalIntent;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    check(bytes);
    let end = bytes.rfind(b"sum ").unwrap_or(bytes.len());
    let sum = format!("sum {:08x}\n", crc32fast::hash(&bytes[..end]));
    check(&[&bytes[..end], sum.as_bytes()].concat());
});

fn check(bytes: &[u8]) {
    let Ok(intent) = GlobalIntent::parse(bytes) else { return };
    assert!(!intent.refs.is_empty() && !intent.mark.contains(&b'\n'));
    for entry in &intent.refs {
        assert!(entry.name.is_valid() && entry.name.starts_with(b"refs/"));
        assert!(!entry.name.split_str("/").any(|part| matches!(part, b"" | b"." | b"..")));
    }
    assert_eq!(GlobalIntent::parse(&intent.encode()), Ok(intent));
}
