use super::*;
use crate::files::packed::far_reads::SEARCHES_MAX;
use bstr::{BString, ByteSlice};
use refdb_testkit::Rng;
use refdb_types::HashKind;
use refdb_vfs::{Fs, Mapping};
use std::{fmt::Write, path::Path, sync::Arc};

/// Returns a packed-refs of some hundred KiB with peeled lines, and with names that are longer than one read.
fn content(rng: &mut Rng) -> String {
    let mut text = "# pack-refs with: peeled fully-peeled sorted \n".to_owned();
    for number in 0..4_000 {
        let long = if rng.below(50) == 0 { "x".repeat(rng.below(1_500)) } else { String::new() };
        writeln!(text, "{:040x} refs/heads/{number:05}{long}", number + 1).unwrap();
        if rng.below(3) == 0 {
            writeln!(text, "^{:040x}", number + 1).unwrap();
        }
    }
    text
}

/// Opens the file in memory, and mapped.
fn both(text: String, folder: &Path) -> (Packed, Packed) {
    let path = folder.join("packed-refs");
    std::fs::write(&path, &text).unwrap();
    let file = Arc::new(Fs::real().open(&path).unwrap());
    let mapped = Bytes::Mapped(Mapping::new(&file).unwrap(), FarReads::new(&file));
    let open = |bytes| Packed::open(&path, HashKind::Sha1, bytes, true).unwrap();
    (open(Bytes::Owned(text.into_bytes())), open(mapped))
}

#[test]
fn a_search_by_reads_ends_where_one_in_memory_does() {
    let (mut rng, folder) = (Rng::new(1), tempfile::tempdir().unwrap());
    for _ in 0..5 {
        let (whole, by_reads) = both(content(&mut rng), folder.path());
        assert!(by_reads.far_reads().is_some() && whole.far_reads().is_none());
        let mut from = whole.start();
        for at in 0..SEARCHES_MAX * 2 {
            let number = rng.below(4_100);
            let end = ["", "0", "x", "/"][rng.below(4)];
            let name = BString::from(format!("refs/heads/{number:05}{end}"));
            let expected = whole.lower_bound(name.as_bstr()).unwrap();
            assert_eq!(by_reads.lower_bound(name.as_bstr()).unwrap(), expected, "{name}, search {at}");
            let near = whole.seek(from, name.as_bstr()).unwrap();
            assert_eq!(by_reads.seek(from, name.as_bstr()).unwrap(), near, "{name} from {from}");
            from = if expected < whole.end() { expected } else { whole.start() };
        }
        assert!(by_reads.far_reads().is_none(), "later searches use the mapping");
    }
}

#[test]
fn harmed_lines_are_told_of_as_without_reads() {
    let (mut rng, folder) = (Rng::new(2), tempfile::tempdir().unwrap());
    let text = content(&mut rng);
    for _ in 0..50 {
        let mut bytes = text.clone().into_bytes();
        let from = rng.below(bytes.len() - 2_000) + 100;
        let byte = [b'\n', b'^', b' ', 0][rng.below(4)];
        bytes[from..from + 300].fill(byte);
        let (whole, by_reads) = both(String::from_utf8(bytes).unwrap(), folder.path());
        for _ in 0..4 {
            let name = BString::from(format!("refs/heads/{:05}", rng.below(4_000)));
            let found = |packed: &Packed| {
                packed
                    .lower_bound(name.as_bstr())
                    .map_err(|error| error.to_string().rsplit('\'').next().map(str::to_owned))
            };
            assert_eq!(found(&by_reads), found(&whole), "{name} around {from}");
        }
    }
}
