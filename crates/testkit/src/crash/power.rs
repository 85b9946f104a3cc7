use super::{
    Context, Crash, copy,
    disk::{Disk, Image, Model, Rest},
    record::{Fault, Recorder},
};
use crate::{Rng, every};
use refdb_vfs::Fs;
use std::{collections::HashSet, fmt::Debug, path::Path, sync::Arc};

/// Maximum number of combinations of kept and lost changes that are all tried. If there are more, a sample is.
const COMBINATIONS_MAX: usize = 256;

/// The number of disk states, counted from a workload's first, that `make test` checks without leaving any out.
const DISKS_OF_ALL: usize = 256;

/// Runs `workload` once, to its end, in a copy of the folder `start`. Then, for every operation, builds the states that
/// the disk may be in if power is lost before that operation, as far as `assumed` permits them, and passes them to
/// `check`. A file's unsynced changes survive as a whole, in one of a few parts, or not at all. If that makes more than
/// 256 states before one operation, only a sample of them is built.
///
/// At the end, [`Crash::claimed`] is set, because whatever was reported as done must survive. A state that occurs again
/// is not checked again, except once at the end. `make test` checks the first 256 states, those at the end, and every
/// third of the others.
///
/// # Panics
///
/// If the workload fails, or does something outside of its folder.
pub fn lose_power_everywhere<E: Debug>(
    start: &Path,
    assumed: Disk,
    workload: impl Fn(&Fs, &Path) -> Result<(), E>,
    check: impl Fn(&Path, &Crash),
) {
    let temp = copy::fresh(start);
    let dir = temp.path().join("copy");
    let mut model = Model::load(&dir, assumed).expect("a folder just copied can be read");
    let recorder = Arc::new(Recorder::new(&dir, Fault::None));
    workload(&Fs::with_hook(recorder.clone()), &dir).expect("the workload succeeds when nothing stops it");
    let ops = recorder.take();
    let mut checked = HashSet::new();
    let stride = every(3);
    for at in 0..=ops.len() {
        let next = ops.get(at).map_or("the end".to_owned(), ToString::to_string);
        let claimed = at == ops.len();
        for (how, image) in images(&model, at as u64) {
            let is_new = checked.insert((image.fingerprint(), claimed));
            if is_new && (claimed || checked.len() <= DISKS_OF_ALL || checked.len() % stride == 0) {
                let crash = Crash { at, next: next.clone(), how, claimed };
                look(&image, &crash, &check);
            }
        }
        if let Some(op) = ops.get(at) {
            model.apply(op);
        }
    }
}

fn look(image: &Image, crash: &Crash, check: &impl Fn(&Path, &Crash)) {
    let temp = tempfile::Builder::new().prefix("refdb-power-").tempdir().expect("a temporary folder can be made");
    image.write(temp.path()).expect("an image can be written");
    let _context = Context(crash);
    check(temp.path(), crash);
}

/// Returns states that the disk may be in now, each with a description.
fn images(model: &Model, seed: u64) -> Vec<(String, Image)> {
    let unsynced = model.unsynced();
    let choices = choices(model, unsynced.len(), seed);
    let build = |choice: &Choice| {
        let rests: Vec<_> = unsynced.iter().copied().zip(choice.rests.iter().copied()).collect();
        let kept: Vec<usize> = (0..model.pending()).filter(|at| choice.keep[*at]).collect();
        let how = format!(
            "power lost; of {} unsynced changes of folders {kept:?} were kept, of unsynced content {:?}",
            model.pending(),
            choice.rests
        );
        (how, model.image(|at| choice.keep[at], &rests))
    };
    choices.iter().map(build).collect()
}

/// Which pending changes have survived, and what remains of each unsynced file.
struct Choice {
    keep: Vec<bool>,
    rests: Vec<Rest>,
}

fn choices(model: &Model, files: usize, seed: u64) -> Vec<Choice> {
    let (changes, ordered, rests) = (model.pending(), model.is_ordered(), model.rests());
    let of_changes =
        if ordered { Some(changes + 1) } else { 1usize.checked_shl(changes as u32).filter(|_| changes < 16) };
    let of_files = rests.len().checked_pow(files as u32);
    let total = of_changes.zip(of_files).and_then(|(changes, files)| changes.checked_mul(files));
    match total.filter(|total| *total <= COMBINATIONS_MAX) {
        Some(total) => (0..total).map(|number| numbered(number, changes, ordered, rests, files)).collect(),
        None => sampled(changes, ordered, rests, files, &mut Rng::new(seed)),
    }
}

/// Returns the combination with this number, where there are few enough combinations to try all.
fn numbered(number: usize, changes: usize, ordered: bool, all: &[Rest], files: usize) -> Choice {
    let per_files = all.len().pow(files as u32);
    let (of_changes, of_files) = (number / per_files, number % per_files);
    let keep = (0..changes).map(|at| if ordered { at < of_changes } else { of_changes >> at & 1 == 1 }).collect();
    let rests = (0..files).map(|at| all[of_files / all.len().pow(at as u32) % all.len()]).collect();
    Choice { keep, rests }
}

/// Returns a sample of the combinations: every prefix of the changes of folders, and unless they are ordered, each
/// change alone kept or alone lost, and random choices. Each of these is combined with each of `all` for all files
/// alike, and twice with a random one for each file.
fn sampled(changes: usize, ordered: bool, all: &[Rest], files: usize, rng: &mut Rng) -> Vec<Choice> {
    let mut keeps: Vec<Vec<bool>> = (0..=changes).map(|end| (0..changes).map(|at| at < end).collect()).collect();
    if !ordered {
        for odd in 0..changes {
            keeps.push((0..changes).map(|at| at == odd).collect());
            keeps.push((0..changes).map(|at| at != odd).collect());
        }
        keeps.extend((0..32).map(|_| (0..changes).map(|_| rng.one_in(2)).collect::<Vec<_>>()));
    }
    let mut choices = Vec::new();
    for keep in keeps {
        for rest in all {
            choices.push(Choice { keep: keep.clone(), rests: vec![*rest; files] });
        }
        for _ in 0..2 {
            let rests = (0..files).map(|_| *rng.pick(all)).collect();
            choices.push(Choice { keep: keep.clone(), rests });
        }
    }
    choices
}
