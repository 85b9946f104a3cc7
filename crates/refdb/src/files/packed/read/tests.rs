use super::*;

fn id(byte: u8) -> ObjectId {
    ObjectId::from_bytes(HashKind::Sha1, &[byte; 20]).unwrap()
}

fn packed(text: &str) -> Result<Packed> {
    let text = text.replace("%1", &id(1).to_string()).replace("%2", &id(2).to_string());
    Packed::parse(Path::new("packed-refs"), HashKind::Sha1, text.into_bytes())
}

/// Reads record by record, and requires that a walk returns the same records up to the same error.
fn listed(packed: &Packed) -> Result<Vec<String>> {
    let mut out = Vec::new();
    let mut at = packed.start();
    let error = loop {
        if at >= packed.end() {
            break None;
        }
        match packed.record(at) {
            Ok(record) => {
                out.push(shown(&record.view()));
                at = record.next;
            }
            Err(error) => break Some(error),
        }
    };
    let mut walked = Vec::new();
    let mut walk = PackedWalk { before: BString::default(), last: None, next: packed.start() };
    let end = loop {
        // The walk stops after every third record, and goes on.
        let flow = packed.for_each(&mut walk, packed.end(), &mut |view| {
            walked.push(shown(view));
            if walked.len() % 3 == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        if !matches!(flow, Ok(ControlFlow::Break(()))) {
            break flow;
        }
    };
    if packed.disorder().is_some() {
        assert!(out.starts_with(&walked), "it stops at a name that is out of order");
        return error.map_or(Ok(out), Err);
    }
    assert_eq!((&walked, walk.next), (&out, at));
    assert_eq!(end.err().map(|error| error.to_string()), error.as_ref().map(ToString::to_string));
    error.map_or(Ok(out), Err)
}

fn shown(view: &RefView<'_>) -> String {
    let TargetView::Direct(id) = view.target else { panic!("{view:?}") };
    let peeled = match view.peeled {
        Peeled::Unknown => "?".into(),
        Peeled::NotTag => "-".into(),
        Peeled::To(id) => id.as_bytes()[0].to_string(),
    };
    format!("{} {} {peeled}", view.name, id.as_bytes()[0])
}

const SORTED: &str = "# pack-refs with: peeled fully-peeled sorted \n";

#[test]
fn a_seek_past_the_last_record_ends_at_the_end_however_long_the_file() {
    let id = "1".repeat(40);
    for len in 1..600 {
        let text = format!("{id} refs/a\n{id} refs/b{}\n", "x".repeat(len));
        let traits = "# pack-refs with: peeled fully-peeled sorted \n";
        let bytes = [traits.as_bytes(), text.as_bytes()].concat();
        let packed = Packed::parse(Path::new("packed-refs"), HashKind::Sha1, bytes).unwrap();
        assert_eq!(packed.seek(packed.start(), "refs/z".into()).unwrap(), packed.end(), "{len}");
    }
}

#[test]
fn the_header_says_what_a_missing_peeled_line_means() {
    for (promises, expected) in [
        ("peeled fully-peeled sorted ", ["refs/heads/a 1 -", "refs/tags/b 1 2", "refs/tags/c 1 -"]),
        ("peeled ", ["refs/heads/a 1 ?", "refs/tags/b 1 2", "refs/tags/c 1 -"]),
        ("unheard-of", ["refs/heads/a 1 ?", "refs/tags/b 1 2", "refs/tags/c 1 ?"]),
    ] {
        let text = format!("# pack-refs with: {promises}\n%1 refs/heads/a\n%1 refs/tags/b\n^%2\n%1 refs/tags/c\n");
        assert_eq!(listed(&packed(&text).unwrap()).unwrap(), expected);
    }
}

#[test]
fn a_file_that_does_not_say_it_is_sorted_is_sorted_with_its_peeled_lines() {
    let packed = packed("%1 refs/tags/b\n^%2\n%2 refs/tags/a\n").unwrap();
    assert_eq!(listed(&packed).unwrap(), ["refs/tags/a 2 ?", "refs/tags/b 1 2"]);
    assert!(packed.reordered && !packed.is_copyable());
}

#[test]
fn broken_lines_are_reported_with_their_number_in_gits_words() {
    for (text, line, what) in [
        ("%1 refs/a\n%1 refs/b", 2, format!("unterminated line in packed-refs: {} refs/b", id(1))),
        ("# foo\n%1 refs/a\n", 1, "unexpected line in packed-refs: # foo".into()),
        ("# pack-refs with:", 1, "unterminated line in packed-refs: # pack-refs with:".into()),
        ("\n%1 refs/a\n", 1, "unexpected line in packed-refs: ".into()),
        ("%1 refs/a\n^%1\n^%2\n", 3, format!("unexpected line in packed-refs: ^{}", id(2))),
        ("%1 refs/a\n^%1 \n", 2, format!("unexpected line in packed-refs: ^{} ", id(1))),
        ("^%1\n%1 refs/a\n", 1, format!("unexpected line in packed-refs: ^{}", id(1))),
        ("%1 refs/a\n%1refs/b\n", 2, format!("unexpected line in packed-refs: {}refs/b", id(1))),
        ("%1 refs/a\n%1\n", 2, format!("unexpected line in packed-refs: {}", id(1))),
    ] {
        for header in ["", SORTED] {
            let lines = if header.is_empty() || text.starts_with('#') { 0 } else { 1 };
            let text = if text.starts_with('#') { text.into() } else { format!("{header}{text}") };
            let error = packed(&text).and_then(|packed| listed(&packed)).unwrap_err();
            let Error::Corrupt { line: at, what: said, .. } = error else { panic!("{error}") };
            assert_eq!((at, said), (line + lines, what.clone()), "{text:?}");
        }
    }
}

#[test]
fn seeking_does_not_step_onto_the_end_when_a_stride_leads_exactly_there() {
    // Each line has 64 bytes, so that four lines make the first stride.
    let names: Vec<String> = (0..60).map(|n| format!("refs/heads/new/{n:07}")).collect();
    let text: String = names.iter().map(|name| format!("%1 {name}\n")).collect();
    let packed = packed(&format!("{SORTED}{text}")).unwrap();
    let mut position = packed.start();
    for name in &names {
        position = packed.seek(position, name.as_str().into()).unwrap();
        assert_eq!(packed.record(position).unwrap().name, name.as_str());
    }
}

#[test]
fn seeking_finds_every_name_from_every_position() {
    let mut text = SORTED.to_string();
    let names: Vec<String> = (0..60).map(|i| format!("refs/{:03}{}", i * 2 + 1, "x".repeat(i % 7 * 40))).collect();
    for (i, name) in names.iter().enumerate() {
        text += &format!("%1 {name}\n{}", if i % 3 == 0 { "^%2\n" } else { "" });
    }
    let packed = packed(&text).unwrap();
    let mut positions = vec![packed.start()];
    while *positions.last().unwrap() < packed.end() {
        positions.push(packed.record(*positions.last().unwrap()).unwrap().next);
    }
    for (from, position) in positions.iter().enumerate() {
        for wanted in from..names.len() {
            assert_eq!(packed.seek(*position, names[wanted].as_bytes().as_bstr()).unwrap(), positions[wanted]);
            let before = format!("refs/{:03}", wanted * 2);
            assert_eq!(packed.seek(*position, before.as_bytes().as_bstr()).unwrap(), positions[wanted]);
        }
        assert_eq!(packed.seek(*position, "refs/zz".into()).unwrap(), packed.end());
    }
}

/// Regression: a gallop that landed exactly on the end of the file looked for a record there.
#[test]
fn seeking_in_a_file_of_any_length_stays_in_it() {
    for len in 0..600 {
        let last = format!("refs/b{}", "x".repeat(len));
        let packed = packed(&format!("{SORTED}%1 refs/a\n%1 {last}\n")).unwrap();
        let second = packed.record(packed.start()).unwrap().next;
        assert_eq!(packed.seek(packed.start(), last.as_bytes().as_bstr()).unwrap(), second, "{len}");
        assert_eq!(packed.seek(packed.start(), "refs/c".into()).unwrap(), packed.end(), "{len}");
    }
}

#[test]
fn a_position_behind_the_end_is_an_error() {
    let packed = packed("%1 refs/heads/a\n").unwrap();
    assert!(packed.record(packed.end()).is_err() && packed.record(packed.end() + 9).is_err());
}

/// Opens a file with these bytes that is read page by page.
fn paged(bytes: &[u8]) -> Result<Packed> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("packed-refs");
    std::fs::write(&path, bytes).unwrap();
    let file = std::sync::Arc::new(refdb_vfs::Fs::real().open(&path).unwrap());
    let pages = Pages::new(Arc::new(PackedSource::held(file)), bytes.len(), &std::sync::Arc::default());
    Packed::open(Path::new("packed-refs"), HashKind::Sha1, Bytes::Paged(pages), true)
}

/// Returns a packed-refs whose names are from a few bytes to more than two pages long, some with peeled lines, and the
/// names.
fn large(header: &str, order: impl Fn(usize) -> usize) -> (Vec<u8>, Vec<String>) {
    let mut text = header.to_string();
    let name = |i: usize| {
        let long = if i == 77 || i == 78 { 40_000 } else { i * 7919 % 400 };
        format!("refs/{i:04}{}", "x".repeat(long))
    };
    for i in (0..400).map(order) {
        let _ = std::fmt::Write::write_fmt(&mut text, format_args!("{} {}\n", id((i % 200) as u8), name(i)));
        if i % 3 == 0 {
            let _ = std::fmt::Write::write_fmt(&mut text, format_args!("^{}\n", id(250)));
        }
    }
    (text.into_bytes(), (0..400).map(name).collect())
}

#[test]
fn a_file_read_page_by_page_has_the_same_records() {
    for header in [SORTED, "# pack-refs with: peeled \n", ""] {
        let (bytes, names) = large(header, |i| i);
        let whole = Packed::parse(Path::new("packed-refs"), HashKind::Sha1, bytes.clone()).unwrap();
        let paged = paged(&bytes).unwrap();
        assert!(matches!(paged.bytes, Bytes::Paged(_)));
        for name in &names {
            // Every page is looked up for the first time.
            let fresh = paged.without(Shed::All).unwrap();
            let at = fresh.seek(fresh.start(), name.as_str().into()).unwrap();
            assert_eq!(at, whole.seek(whole.start(), name.as_str().into()).unwrap());
            assert_eq!(fresh.record(at).unwrap(), whole.record(at).unwrap());
            assert_eq!(fresh.find(name.as_str().into()).unwrap().unwrap(), whole.record(at).unwrap());
            assert_eq!(fresh.first_from(at).unwrap(), at);
            assert_eq!(fresh.first_from(at + 1).unwrap(), whole.record(at).unwrap().next);
            let behind = format!("{name}!");
            assert_eq!(fresh.find(behind.as_str().into()).unwrap(), None);
            let at = paged.seek(paged.start(), behind.as_str().into()).unwrap();
            assert_eq!(at, whole.seek(whole.start(), behind.as_str().into()).unwrap());
        }
        assert_eq!(listed(&paged).unwrap(), listed(&whole).unwrap());
        let (mut from, mut parts) = (paged.start(), Vec::new());
        while from < paged.end() {
            let (part, next) = paged.part(from, vec![7; from % 1000]).unwrap();
            parts.extend(listed(&part).unwrap());
            from = next;
        }
        assert_eq!(parts, listed(&whole).unwrap());
    }
}

#[test]
fn a_paged_file_that_is_not_sorted_is_sorted_in_memory() {
    let (bytes, _) = large("", |i| 399 - i);
    let whole = Packed::parse(Path::new("packed-refs"), HashKind::Sha1, bytes.clone()).unwrap();
    let paged = paged(&bytes).unwrap();
    assert!(matches!(paged.bytes, Bytes::Owned(_)));
    assert_eq!(listed(&paged).unwrap(), listed(&whole).unwrap());
}

#[test]
fn broken_lines_of_a_paged_file_have_the_same_numbers() {
    for header in [SORTED, ""] {
        let (bytes, _) = large(header, |i| i);
        let broken_at = bytes.len() / 2 + bytes[bytes.len() / 2..].find_byte(b'\n').unwrap() + 1;
        for (at, byte) in [(broken_at, b'g'), (broken_at + 40, b'_'), (bytes.len() - 1, b'x')] {
            let mut bytes = bytes.clone();
            bytes[at] = byte;
            let path = Path::new("packed-refs");
            let whole = Packed::parse(path, HashKind::Sha1, bytes.clone()).and_then(|packed| listed(&packed));
            let paged = paged(&bytes).and_then(|packed| listed(&packed));
            assert_eq!(paged.unwrap_err().to_string(), whole.unwrap_err().to_string());
        }
    }
}

#[test]
fn a_file_that_is_truncated_under_its_pages_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("packed-refs");
    let (bytes, names) = large(SORTED, |i| i);
    std::fs::write(&path, &bytes).unwrap();
    let file = std::sync::Arc::new(refdb_vfs::Fs::real().open(&path).unwrap());
    let budget = std::sync::Arc::default();
    let pages = Pages::new(Arc::new(PackedSource::held(file)), bytes.len(), &budget);
    let packed = Packed::open(&path, HashKind::Sha1, Bytes::Paged(pages), true).unwrap();
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(100).unwrap();
    let results: Vec<_> = names.iter().map(|name| packed.seek(packed.start(), name.as_str().into())).collect();
    assert!(results.iter().any(|result| matches!(result, Err(Error::Io(_)))));
    assert!(budget.used_bytes() < 2 * bytes.len());
    drop(packed);
    assert_eq!(budget.used_bytes(), 0);
}

#[test]
fn no_mutation_of_a_file_makes_the_reader_panic() {
    let seed = format!("{SORTED}%1 refs/heads/a\n%1 refs/tags/b\n^%2\n%2 refs/tags/c\n");
    let seed = seed.replace("%1", &id(1).to_string()).replace("%2", &id(2).to_string()).into_bytes();
    for at in 0..seed.len() {
        for byte in [0, b'\n', b'^', b' ', b'#', b'r', 0xff, seed[at] ^ 1] {
            for len in [seed.len(), at + 1] {
                let mut bytes = seed.clone();
                bytes[at] = byte;
                bytes.truncate(len);
                let Ok(packed) = Packed::parse(Path::new("p"), HashKind::Sha1, bytes) else { continue };
                let _ = listed(&packed);
                for name in ["refs/heads/a", "refs/tags/b", "refs/x", ""] {
                    let _ = packed.seek(packed.start(), name.into());
                }
            }
        }
    }
}

/// Regression: a part of a file in memory was the whole rest of the file, so that each of many slow clients cost the
/// size of the file.
#[test]
fn a_part_of_a_file_in_memory_is_a_part() {
    // Not sorted, so that it is sorted in memory.
    let text: String = (0..10_000).rev().map(|at| format!("%1 refs/heads/{at:05}\n")).collect();
    let whole = packed(&text).unwrap();
    let (mut from, mut records) = (whole.start(), 0);
    while from < whole.end() {
        let (part, next) = whole.part(from, Vec::new()).unwrap();
        assert!(part.end() <= PART_LEN + 100 && next > from);
        let mut at = part.start();
        while at < part.end() {
            (at, records) = (part.record(at).unwrap().next, records + 1);
        }
        from = next;
    }
    assert_eq!(records, 10_000);
}
