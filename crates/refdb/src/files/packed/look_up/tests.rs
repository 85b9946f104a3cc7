use super::*;
use crate::files::{
    PageBudget,
    packed::{
        pages::{PAGE_LEN, Shed},
        source::PackedSource,
    },
};
use refdb_vfs::Fs;
use std::{fmt::Write, path::Path, sync::Arc};

const SORTED: &str = "# pack-refs with: peeled fully-peeled sorted \n";

fn id(at: usize) -> ObjectId {
    let bytes: Vec<u8> = (0..20).map(|byte| (at * 31 + byte * 7 + at / 256) as u8).collect();
    ObjectId::from_bytes(HashKind::Sha1, &bytes).unwrap()
}

fn name(at: usize) -> String {
    format!("refs/changes/{:02}/{at:05}/meta", at / 100)
}

/// Returns a packed-refs with these refs, of which every seventh holds an annotated tag.
fn text(header: &str, refs: impl Iterator<Item = usize>) -> String {
    let mut text = header.to_owned();
    for at in refs {
        writeln!(text, "{} {}", id(at), name(at)).unwrap();
        if at % 7 == 0 {
            writeln!(text, "^{}", id(at + 1)).unwrap();
        }
    }
    text
}

struct File {
    _dir: tempfile::TempDir,
    path: std::path::PathBuf,
    budget: Arc<PageBudget>,
    packed: Packed,
}

fn file(text: &str) -> File {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("packed-refs");
    std::fs::write(&path, text).unwrap();
    let budget = Arc::default();
    let pages =
        Pages::new(Arc::new(PackedSource::held(Arc::new(Fs::real().open(&path).unwrap()))), text.len(), &budget);
    let packed = Packed::open(Path::new("packed-refs"), HashKind::Sha1, Bytes::Paged(pages), true).unwrap();
    File { _dir: dir, path, budget, packed }
}

fn look_up(packed: &Packed, name: &str) -> Option<(ObjectId, Peeled)> {
    packed.look_up(name.into(), &mut false).unwrap()
}

#[test]
fn a_look_up_finds_what_the_text_says_and_has_each_page_in_memory_from_the_third_on() {
    const REFS: usize = 9000;
    for header in [SORTED, "# pack-refs with: peeled sorted \n", "# pack-refs with: \n", ""] {
        let text = text(header, 0..REFS);
        let file = file(&text);
        let whole = Packed::parse(Path::new("p"), HashKind::Sha1, text.clone().into_bytes()).unwrap();
        let mut reads = 0;
        for at in (0..REFS).map(|at| at * 4967 % REFS) {
            let mut has_read = false;
            let found = file.packed.look_up(name(at).as_str().into(), &mut has_read).unwrap();
            reads += usize::from(has_read);
            let record = whole.find(name(at).as_str().into()).unwrap().unwrap();
            assert_eq!(found, Some((record.id, record.peeled)), "{header:?} {at}");
        }
        assert_eq!(reads, 2 * text.len().div_ceil(PAGE_LEN));
        for at in 0..REFS {
            assert_eq!(look_up(&file.packed, &format!("{}!", name(at))), None);
        }
        for missing in ["", "a", "refs/changes/00/00000", "refs/changes/99", "refs/zzz", "zzz"] {
            assert_eq!(look_up(&file.packed, missing), None, "{missing}");
        }
        let kept = file.packed.without(Shed::Text).unwrap().loaded_bytes();
        assert!(kept < text.len() * 55 / 100, "{kept} of {}", text.len());
        let mut at = 0;
        file.packed.for_each_kept(&mut |found, object, peeled| {
            let record = whole.find(found).unwrap().unwrap();
            assert_eq!((found, record.id, record.peeled), (name(at).as_str().into(), *object, peeled));
            at += 1;
            ControlFlow::Continue(())
        });
        assert_eq!(at, REFS);
    }
}

#[test]
fn lines_out_of_order_in_a_file_that_says_it_is_sorted_are_found_as_the_text_is_searched() {
    const REFS: usize = 3000;
    // Two neighbours in one page have changed places, and one line is there twice.
    let order = (0..REFS).map(|at| match at {
        1000 => 1001,
        1001 => 1000,
        2000 => 1999,
        at => at,
    });
    let text = text(SORTED, order);
    let file = file(&text);
    let whole = Packed::parse(Path::new("p"), HashKind::Sha1, text.into_bytes()).unwrap();
    for at in 0..REFS {
        let record = file.packed.find(name(at).as_str().into()).unwrap();
        assert_eq!(look_up(&file.packed, &name(at)), record.map(|record| (record.id, record.peeled)), "{at}");
    }
    assert!(whole.to_block().is_none());
    let mut kept = 0;
    file.packed.for_each_kept(&mut |_, _, _| {
        kept += 1;
        ControlFlow::Continue(())
    });
    assert!((1..REFS - 200).contains(&kept), "{kept}: only pages in order are kept");
}

#[test]
fn a_broken_line_is_an_error_for_its_name_and_for_no_other() {
    let mut text = text(SORTED, 0..3000).into_bytes();
    let broken = text.len() / 2 + text[text.len() / 2..].iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let line = text[broken..].split(|byte| *byte == b'\n').next().unwrap().to_vec();
    let victim = String::from_utf8(line[41..].to_vec()).unwrap();
    text[broken] = b'g';
    let file = file(std::str::from_utf8(&text).unwrap());
    let (mut errors, mut found) = (Vec::new(), 0);
    for at in 0..3000 {
        match file.packed.look_up(name(at).as_str().into(), &mut false) {
            Ok(Some(_)) => found += 1,
            Ok(None) => panic!("{at} is missing"),
            Err(error) => errors.push((name(at), error.to_string())),
        }
    }
    assert_eq!((errors.len(), found), (1, 2999), "{errors:?}");
    assert_eq!(errors[0].0, victim);
    assert!(errors[0].1.contains("unexpected line in packed-refs"), "{}", errors[0].1);
}

#[test]
fn a_page_that_changes_between_open_and_read_is_read_as_it_is_and_never_panics() {
    let before = text(SORTED, 0..6000);
    let after = text(SORTED, 3000..9000);
    let file = file(&before);
    // This loads a few pages, and the first names of some others.
    for at in [0, 2999, 5999] {
        assert!(look_up(&file.packed, &name(at)).is_some());
    }
    std::fs::write(&file.path, &after[..before.len().min(after.len())]).unwrap();
    for at in 0..9000 {
        // Any answer must be right for one of the two files. The caller finds out by the stat that the file has
        // changed.
        if let Ok(Some((object, _))) = file.packed.look_up(name(at).as_str().into(), &mut false) {
            assert_eq!(object, id(at));
        }
    }
    std::fs::OpenOptions::new().write(true).open(&file.path).unwrap().set_len(1000).unwrap();
    let fresh = file.packed.without(Shed::All).unwrap();
    assert!((0..6000).any(|at| fresh.look_up(name(at).as_str().into(), &mut false).is_err()));
}

#[test]
fn memory_is_given_up_and_counted_in_two_steps() {
    let file = file(&text(SORTED, 0..6000));
    for at in 0..6000 {
        look_up(&file.packed, &name(at));
    }
    assert_eq!(file.budget.used_bytes(), file.packed.loaded_bytes(), "all bytes read are counted");
    let blocks = file.packed.without(Shed::Text).unwrap().loaded_bytes();
    let position = file.packed.lower_bound(name(4000).as_str().into()).unwrap();
    assert!(file.packed.record(position).is_ok() && file.budget.used_bytes() > blocks);
    let without_text = file.packed.without(Shed::Text).unwrap();
    drop(file.packed);
    assert_eq!(file.budget.used_bytes(), blocks);
    let mut has_read = false;
    assert!(without_text.look_up(name(5000).as_str().into(), &mut has_read).unwrap().is_some() && !has_read);
    let empty = without_text.without(Shed::All).unwrap();
    drop(without_text);
    assert_eq!(file.budget.used_bytes() + file.budget.text_bytes(), 0);
    assert!(empty.look_up(name(5000).as_str().into(), &mut has_read).unwrap().is_some() && has_read);
}

#[test]
fn blocks_are_given_up_by_their_use_and_then_in_turn() {
    let file = file(&text(SORTED, 0..6000));
    let all = |packed: &Packed| {
        let mut refs = 0;
        packed.for_each_kept(&mut |_, _, _| {
            refs += 1;
            ControlFlow::Continue(())
        });
        refs
    };
    for _ in 0..2 {
        (0..6000).for_each(|at| assert!(look_up(&file.packed, &name(at)).is_some()));
    }
    let whole = file.packed.without(Shed::Text).unwrap().loaded_bytes();
    let half = file.packed.without(Shed::Blocks(whole / 2)).unwrap();
    assert!(
        half.loaded_bytes() <= whole / 2 && half.loaded_bytes() > whole * 2 / 5,
        "{} of {whole}",
        half.loaded_bytes()
    );
    assert_eq!(file.budget.used_bytes(), file.packed.loaded_bytes(), "what both have is counted once");
    drop(file.packed);
    assert_eq!(file.budget.used_bytes(), half.loaded_bytes());

    // The blocks of the second half are left. One with a look-up since then outlasts its neighbours.
    let mut has_read = false;
    assert!(half.look_up(name(5999).as_str().into(), &mut has_read).unwrap().is_some() && !has_read);
    let one = half.without(Shed::Blocks(half.loaded_bytes() - 1000)).unwrap();
    assert!(all(&one) > 0 && all(&one) < 300);
    assert!(one.look_up(name(5999).as_str().into(), &mut has_read).unwrap().is_some() && !has_read);
    assert_eq!(one.without(Shed::Blocks(usize::MAX)).unwrap().loaded_bytes(), 0);
}

#[test]
fn the_records_between_two_names_are_those_of_the_text_or_have_to_be_read() {
    const REFS: usize = 9000;
    let text = text(SORTED, 0..REFS);
    let file = file(&text);
    let whole = Packed::parse(Path::new("p"), HashKind::Sha1, text.into_bytes()).unwrap();
    let between = |start: &str, end: &str| {
        let mut found = Vec::new();
        let are_few = file.packed.for_each_between(start.into(), end.into(), &mut |name, id, peeled| {
            found.push((name.to_string(), *id, peeled));
            ControlFlow::Continue(())
        });
        are_few.unwrap().then_some(found)
    };
    assert_eq!(between("refs/changes/00/", "refs/changes/000"), None, "nothing is in memory");
    (0..2 * REFS).for_each(|at| _ = look_up(&file.packed, &name(at / 2)));
    let mut few = 0;
    for folder in (0..REFS / 100).map(|folder| format!("refs/changes/{folder:02}")) {
        let (start, end) = (format!("{folder}/"), format!("{folder}0"));
        let (mut at, mut expected) = (whole.lower_bound(start.as_str().into()).unwrap(), Vec::new());
        while at < whole.lower_bound(end.as_str().into()).unwrap() {
            let record = whole.record(at).unwrap();
            expected.push((record.name.to_string(), record.id, record.peeled));
            at = record.next;
        }
        assert_eq!(expected.len(), 100);
        if let Some(found) = between(&start, &end) {
            assert_eq!(found, expected);
            few += 1;
        }
    }
    assert_eq!(few, REFS / 100);
    assert_eq!(between("refs/changes/10/01000/", "refs/changes/10/010000").unwrap().len(), 1);
    for (start, end) in [("a", "b"), ("zzz", "zzzz"), ("refs/changes/10/01000/n", "refs/changes/10/01001")] {
        assert_eq!(between(start, end), Some(Vec::new()));
    }
    assert_eq!(between("refs/", "refs0"), None, "many");
}
