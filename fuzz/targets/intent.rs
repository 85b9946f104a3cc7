//! The journal entry of a small batch, and the journal file that holds the entry. The entry's checksum is corrected, so
//! that the code behind the check is reached.
#![no_main]

use bstr::ByteSlice;
use refdb::files::{JournalEntry, entry_in_journal_file};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    check(bytes);
    if let Some(record) = entry_in_journal_file(bytes) {
        assert!(record.ends_with(b"\n") && bytes.contains_str(record));
        check(record);
    }
    let end = bytes.rfind(b"sum ").unwrap_or(bytes.len());
    let sum = format!("sum {:08x}\n", crc32fast::hash(&bytes[..end]));
    check(&[&bytes[..end], sum.as_bytes()].concat());
});

fn check(bytes: &[u8]) {
    let Ok(intent) = JournalEntry::parse(bytes) else { return };
    for entry in &intent.refs {
        assert!(entry.name.is_valid() && entry.name.starts_with(b"refs/"));
        assert!(!entry.name.split_str("/").any(|part| matches!(part, b"" | b"." | b"..")));
    }
    let record = intent.encode();
    assert_eq!(JournalEntry::parse(&record), Ok(intent));
    let slot = |record: &[u8]| [&[b'x'; 512][..], record, &[0; 64]].concat();
    assert_eq!(entry_in_journal_file(&slot(&record)), Some(&record[..]));
    for torn in [&record[..record.len() / 2], &record[..record.len() - 1]] {
        assert_eq!(entry_in_journal_file(&slot(torn)), None);
    }
}
