//! Times new changes of two refs each in a repository of many packed refs, as a server writes them, synced:
//!
//!   git init --bare R; small_batches R make 150000; small_batches R packed 60; small_batches R loose 200

use refdb::{
    HashKind, ObjectId, Reading, Store, TransactionOptions,
    transaction::{ObjectCheck, ObjectClass},
};
use std::{
    error::Error,
    path::Path,
    sync::Arc,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

/// Takes every id for a commit's.
struct AllCommits;

impl ObjectCheck for AllCommits {
    fn classify(&self, _: &ObjectId) -> Result<ObjectClass, refdb::ObjectError> {
        Ok(ObjectClass::Commit)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [dir, what, count] = &words[..] else { return Err("usage: small_batches DIR make|packed|loose COUNT".into()) };
    let count: usize = count.parse()?;
    if what == "make" { make(Path::new(dir), count) } else { time(dir, what, count) }
}

/// Writes packed-refs with this many refs, two for each change as in Gerrit.
fn make(dir: &Path, refs: usize) -> Result<(), Box<dyn Error>> {
    let name = |at: usize| format!("refs/changes/{:02}/{}/{}", at / 2 % 100, at / 2, ["1", "meta"][at % 2]);
    let mut names: Vec<String> = (0..refs).map(name).collect();
    names.sort();
    let lines = names.iter().enumerate().map(|(at, name)| format!("{:040x} {name}\n", at + 1));
    let head = "# pack-refs with: peeled fully-peeled sorted \n".to_owned();
    Ok(std::fs::write(dir.join("packed-refs"), lines.fold(head, |text, line| text + &line))?)
}

fn time(dir: &str, setting: &str, count: usize) -> Result<(), Box<dyn Error>> {
    let builder = Store::builder(dir).fs(refdb_vfs::Fs::real().signing_locks()).sync(true);
    let builder = builder.reading(Reading::Cached(64 << 20)).objects(Arc::new(AllCommits));
    let store = builder.config(format!("refdb.smallBatches={setting}")).open()?;
    let id = ObjectId::from_bytes(HashKind::Sha1, &[7; 20]).ok_or("an id has 20 bytes")?;
    // Names that no earlier run made.
    let first = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis();
    let mut times = Vec::new();
    for change in (first..).take(count) {
        let begun = Instant::now();
        let mut transaction = store.transaction();
        transaction.options(TransactionOptions::new().atomic_visibility(true));
        for last in ["1", "meta"] {
            transaction.create(format!("refs/changes/{:02}/{change}/{last}", change % 100), id);
        }
        transaction.commit()?;
        times.push(begun.elapsed());
    }
    times.sort_unstable();
    println!("{setting}: {count} batches, quickest {:?}, median {:?}", times.first(), times.get(count / 2));
    Ok(())
}
