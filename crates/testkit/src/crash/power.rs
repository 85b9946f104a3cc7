use super::{
    Context, Crash, copy,
    disk::{Disk, Image, Model, Rest},
    record::{Fault, Recorder},
};
use crate::{Rng, every};
use refdb_vfs::Fs;
use std::{collections::HashSet, fmt::Debug, path::Path, sync::Arc};

/// Up to this many combinations of what was kept and lost, all are tried; else a fair choice of them.
const COMBINATIONS_MAX: usize = 256;

/// Up to this many disks of a workload are all looked at in `make test` too.
const DISKS_OF_ALL: usize = 256;

/// Runs `workload` once, to its end, in a copy of the folder `start`. Then, for every operation it did, builds the disk
/// as it may be if the power goes before it. The disk is as `assumed`, and `check` sees it. At the end,
/// [`Crash::claimed`] is set: what was reported as done must survive, whatever else is lost. `make test` looks at each
/// third disk beyond the first 256, and at all of them at the end.
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

/// What the disk may hold now, each with words for it.
fn images(model: &Model, seed: u64) -> Vec<(String, Image)> {
    let unsynced = model.unsynced();
    let choices = choices(model.pending(), model.is_ordered(), unsynced.len(), seed);
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

/// Which of the pending changes are kept, and the rest of each unsynced file.
struct Choice {
    keep: Vec<bool>,
    rests: Vec<Rest>,
}

fn choices(changes: usize, ordered: bool, files: usize, seed: u64) -> Vec<Choice> {
    let of_changes =
        if ordered { Some(changes + 1) } else { 1usize.checked_shl(changes as u32).filter(|_| changes < 16) };
    let of_files = 4usize.checked_pow(files as u32);
    let total = of_changes.zip(of_files).and_then(|(changes, files)| changes.checked_mul(files));
    match total.filter(|total| *total <= COMBINATIONS_MAX) {
        Some(total) => (0..total).map(|number| numbered(number, changes, ordered, files)).collect(),
        None => sampled(changes, ordered, files, &mut Rng::new(seed)),
    }
}

/// The combination with this number, where all can be counted.
fn numbered(number: usize, changes: usize, ordered: bool, files: usize) -> Choice {
    let per_files = 4usize.pow(files as u32);
    let (of_changes, of_files) = (number / per_files, number % per_files);
    let keep = (0..changes).map(|at| if ordered { at < of_changes } else { of_changes >> at & 1 == 1 }).collect();
    let rests = (0..files).map(|at| Rest::ALL[of_files / 4usize.pow(at as u32) % 4]).collect();
    Choice { keep, rests }
}

/// Where there are too many: all and nothing, every prefix, each change alone lost and alone kept, and random ones.
fn sampled(changes: usize, ordered: bool, files: usize, rng: &mut Rng) -> Vec<Choice> {
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
        for rest in Rest::ALL {
            choices.push(Choice { keep: keep.clone(), rests: vec![rest; files] });
        }
        for _ in 0..2 {
            let rests = (0..files).map(|_| *rng.pick(&Rest::ALL)).collect();
            choices.push(Choice { keep: keep.clone(), rests });
        }
    }
    choices
}
