use super::*;
use crate::{RefView, TargetView};
use bstr::{BStr, BString};
use refdb_types::{FormatOptions, ObjectId, check_format};
use std::path::Path;

/// Takes lines with valid ids except for every third line that is offered, and stops at every seventh view.
struct Shown {
    hash: HashKind,
    refs: Vec<String>,
    taken: usize,
    offered: usize,
    viewed: usize,
}

impl Lines for Shown {
    fn line(&mut self, line: &[u8], digits: usize) -> bool {
        self.offered += 1;
        let (hex, rest) = line.split_at(digits);
        let name = rest.strip_prefix(b" ").and_then(|name| name.strip_suffix(b"\n")).unwrap();
        let any_level = FormatOptions { allow_onelevel: true, refspec_pattern: false };
        assert_eq!(check_format(name, any_level), Ok(()), "{}", name.as_bstr());
        let Ok(id) = ObjectId::from_hex(self.hash, hex) else { return false };
        if self.offered.is_multiple_of(3) {
            return false;
        }
        self.taken += 1;
        self.refs.push(shown(&id, name.as_bstr()));
        true
    }

    fn view(&mut self, view: &RefView<'_>) -> ControlFlow<()> {
        let TargetView::Direct(id) = view.target else { panic!("{view:?}") };
        self.refs.push(shown(&id, view.name));
        self.viewed += 1;
        if self.viewed.is_multiple_of(7) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

fn shown(id: &ObjectId, name: &BStr) -> String {
    format!("{id} {name}")
}

fn walk(packed: &Packed) -> PackedWalk {
    PackedWalk { before: BString::default(), last: None, next: packed.start() }
}

/// Requires that a walk by lines returns the same as a walk by records, and ends at the same place and with the same
/// error. Returns the number of lines that were taken.
fn same(hash: HashKind, bytes: &[u8]) -> usize {
    let Ok(packed) = Packed::parse(Path::new("packed-refs"), hash, bytes.to_vec()) else { return 0 };
    let (mut by_record, mut refs) = (walk(&packed), Vec::new());
    let end = packed.for_each(&mut by_record, packed.end(), &mut |view| {
        let TargetView::Direct(id) = view.target else { panic!("{view:?}") };
        refs.push(shown(&id, view.name));
        ControlFlow::Continue(())
    });
    let again = Packed::parse(Path::new("packed-refs"), hash, bytes.to_vec()).unwrap();
    let mut lines = Shown { hash, refs: Vec::new(), taken: 0, offered: 0, viewed: 0 };
    let mut by_line = walk(&again);
    let flow = loop {
        match again.for_each_line(&mut by_line, again.end(), &mut lines) {
            // The walk goes on where it stopped, as a cursor does.
            Ok(ControlFlow::Break(())) => {}
            flow => break flow,
        }
    };
    assert_eq!(lines.refs, refs, "{}", bytes.as_bstr());
    assert_eq!((by_line.next, by_line.last), (by_record.next, by_record.last), "{}", bytes.as_bstr());
    assert_eq!(flow.map_err(|error| error.to_string()), end.map_err(|error| error.to_string()));
    assert_eq!(again.disorder(), packed.disorder());
    lines.taken
}

/// Returns a packed-refs, mostly of one folder, with tags, names of many lengths and names that are not plain.
fn seed(hash: HashKind) -> Vec<u8> {
    let mut text = b"# pack-refs with: peeled fully-peeled sorted \n".to_vec();
    let mut names: Vec<String> =
        (0..60).map(|len| format!("refs/changes/34/1{}", "7/".repeat(len / 3) + &"1".repeat(len))).collect();
    names.extend(
        ["refs/changes/34", "refs/changes/34/", "refs/changes/34/a.b", "refs/changes/34/\u{e9}", "refs/heads/main"]
            .map(str::to_owned),
    );
    names.sort_unstable();
    for (at, name) in names.iter().enumerate() {
        let digits = format!("{:02x}", at + 1).repeat(hash.len_bytes());
        text.extend_from_slice(format!("{digits} {name}\n").as_bytes());
        if at % 11 == 5 {
            text.extend_from_slice(format!("^{digits}\n").as_bytes());
        }
    }
    text
}

#[test]
fn a_walk_by_lines_gives_what_one_by_records_gives() {
    for hash in [HashKind::Sha1, HashKind::Sha256] {
        let text = seed(hash);
        assert!(same(hash, &text) > 20, "lines are taken");
        for (from, to) in
            [("\n", "\r\n"), (" refs", "\trefs"), ("0a0a", "0A0A"), ("sorted", "srted"), ("/34/1", "/34/2"), ("a", "g")]
        {
            same(hash, &text.replace(from, to));
            same(hash, &text.replacen(from, to, 7));
        }
        for len in 0..text.len() {
            same(hash, &text[..len]);
        }
    }
}

#[test]
fn no_byte_changed_anywhere_makes_them_differ() {
    for hash in [HashKind::Sha1, HashKind::Sha256] {
        let text = seed(hash);
        // Only a part of the text is used, so that each byte can be changed in a short time.
        let start = text.find_byte(b'\n').unwrap() + 1;
        let rest = text[start..].split_inclusive(|byte| *byte == b'\n').skip(14).take(5).flatten();
        let text: Vec<u8> = text[..start].iter().chain(rest).copied().collect();
        assert!(same(hash, &text) > 1);
        for at in start..text.len() {
            for byte in *b"\n\r\t\0 ^/.A9g~\xff" {
                let mut other = text.clone();
                other[at] = byte;
                same(hash, &other);
                other.remove(at);
                same(hash, &other);
            }
        }
    }
}
