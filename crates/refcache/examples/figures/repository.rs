//! The repositories that are measured.

use bstr::{BString, ByteSlice};
use refdb::{
    ObjectError,
    transaction::{ObjectCheck, ObjectClass},
};
use refdb_refcache::{Trust, TrustSettings, View, ViewSettings, Views, ViewsSettings};
use refdb_types::{HashKind, ObjectId};
use reftable::{RefRecord, RefValue, TableWriter, WriteOptions};
use std::{fs, io::Write, path::Path, sync::Arc, time::Duration};

/// Returns the sorted names of a branch and of about `refs` other refs, three for each change, as in Gerrit.
pub(crate) fn names(refs: usize) -> Vec<BString> {
    let mut names: Vec<BString> = (0..refs / 3)
        .flat_map(|change| {
            ["1", "2", "meta"].map(|last| format!("refs/changes/{:02}/{change}/{last}", change % 100).into())
        })
        .collect();
    names.push("refs/heads/master".into());
    names.sort_unstable();
    names
}

pub(crate) fn id(at: usize) -> ObjectId {
    let mut bytes = [0; 20];
    for (part, salt) in bytes.chunks_mut(8).zip(1u64..) {
        let mut mixed = (at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(salt << 17);
        mixed = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        part.copy_from_slice(&mixed.to_be_bytes()[..part.len()]);
    }
    ObjectId::from_bytes(HashKind::Sha1, &bytes).expect("twenty bytes")
}

pub(crate) fn make(repo: &Path, format: &str, names: &[BString]) {
    make_at_once(repo, format, names, 1);
    // Time stamps that are too recent prove nothing.
    std::thread::sleep(Duration::from_millis(100));
}

/// Does what [`make`] does, but does not wait. With reftable, the refs are spread over `tables` tables.
pub(crate) fn make_at_once(repo: &Path, format: &str, names: &[BString], tables: usize) {
    for folder in ["objects", "refs/heads"] {
        fs::create_dir_all(repo.join(folder)).expect("DIR is writable");
    }
    let reftable = format == "reftable";
    let config = if reftable {
        "\trepositoryformatversion = 1\n[extensions]\n\trefstorage = reftable\n"
    } else {
        "\trepositoryformatversion = 0\n"
    };
    fs::write(repo.join("config"), format!("[core]\n\tbare = true\n{config}")).expect("written");
    fs::write(repo.join("HEAD"), if reftable { "ref: refs/heads/.invalid\n" } else { "ref: refs/heads/master\n" })
        .expect("written");
    if reftable { make_tables(&repo.join("reftable"), names, tables) } else { make_packed(repo, names) }
}

fn make_tables(folder: &Path, names: &[BString], tables: usize) {
    fs::create_dir_all(folder).expect("DIR is writable");
    let mut list = String::new();
    for (index, part) in (1..).zip(names.chunks(names.len().div_ceil(tables))) {
        let mut bytes = Vec::new();
        let mut writer = TableWriter::new(WriteOptions::default(), index, index, &mut bytes).expect("good options");
        let head = RefValue::Symbolic("refs/heads/master".into());
        writer.add_ref(&RefRecord { name: "HEAD".into(), update_index: index, value: head }).expect("in order");
        for (at, name) in part.iter().enumerate() {
            let record = RefRecord { name: name.as_bstr(), update_index: index, value: RefValue::Direct(id(at)) };
            writer.add_ref(&record).expect("in order");
        }
        writer.finish().expect("finished");
        let table = format!("0x{index:012x}-0x{index:012x}-00000001.ref");
        fs::write(folder.join(&table), bytes).expect("written");
        list.push_str(&table);
        list.push('\n');
    }
    fs::write(folder.join("tables.list"), list).expect("written");
}

fn make_packed(repo: &Path, names: &[BString]) {
    let file = fs::File::create(repo.join("packed-refs")).expect("created");
    let mut out = std::io::BufWriter::with_capacity(1 << 20, file);
    out.write_all(b"# pack-refs with: peeled fully-peeled sorted \n").expect("written");
    for (at, name) in names.iter().enumerate() {
        writeln!(out, "{} {name}", id(at)).expect("written");
    }
    out.flush().expect("written");
}

pub(crate) fn settings(trust: Trust, believe: Option<Duration>) -> ViewSettings {
    let trust = TrustSettings::new().packed_refs(trust).loose_refs(trust).tables_list(trust).believe(believe);
    ViewSettings::new().trust(trust)
}

pub(crate) fn open(repo: &Path, settings: &ViewSettings) -> Arc<View> {
    Views::new(&ViewsSettings::default()).open(repo, settings).expect("opened")
}

/// The settings of a server that has small batches loose, with this bound.
pub(crate) fn loose(bound: usize) -> ViewSettings {
    let config = vec!["refdb.smallBatches=loose".into(), format!("refdb.looseRefs={bound}").into()];
    settings(Trust::Always, None).config(config).objects(Some(Arc::new(AllCommits)))
}

/// Takes every id for a commit's, because a ref whose object does not exist would not be packed.
struct AllCommits;

impl ObjectCheck for AllCommits {
    fn classify(&self, _: &ObjectId) -> Result<ObjectClass, ObjectError> {
        Ok(ObjectClass::Commit)
    }
}
