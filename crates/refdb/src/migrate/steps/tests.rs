//! A model of both formats, in which a migration is killed after each step while others write.

use super::*;

/// The value of a single ref; 0 stands for none.
type Value = u32;

#[derive(Clone, Debug)]
struct World {
    configured: RefFormat,
    /// The files, or the tables, at the path where their format has them; `None` if they do not exist.
    old: Option<Value>,
    new: Option<Value>,
    /// The old files after they were moved away.
    aside: Option<Value>,
    /// The value that the old files held when the copy was made.
    base: Option<Value>,
    noted: bool,
    old_is_locked: bool,
    new_is_locked: bool,
    /// The value whose write was acknowledged last.
    acknowledged: Value,
}

impl World {
    fn new(to: RefFormat) -> Self {
        let from = if to == RefFormat::Files { RefFormat::Reftable } else { RefFormat::Files };
        World {
            configured: from,
            old: Some(1),
            new: None,
            aside: None,
            base: None,
            noted: false,
            old_is_locked: false,
            new_is_locked: false,
            acknowledged: 1,
        }
    }

    fn run(&mut self, to: RefFormat, step: Step) {
        match step {
            // Files have no lock for all refs.
            Step::HoldOld => self.old_is_locked = to == RefFormat::Files,
            Step::Build => self.base = self.old,
            Step::Note => self.noted = true,
            Step::Install => self.new = self.base,
            Step::HoldNew => self.new_is_locked = true,
            Step::Sync => {}
            Step::Commit => self.configured = to,
            Step::Fence => self.aside = self.old.take().or(self.aside),
            Step::Look => self.look(),
            Step::Done => {
                (self.noted, self.aside, self.base) = (false, None, None);
                (self.old_is_locked, self.new_is_locked) = (false, false);
            }
        }
    }

    /// Takes over what differs from the copy, unless the new place has changed as well.
    fn look(&mut self) {
        if self.aside != self.base && self.new == self.base {
            self.new = self.aside;
            // A change that was taken over is not taken over again.
            self.base = self.aside;
        }
    }

    fn crash(&mut self) {
        // The next writer removes a dead process's locks.
        (self.old_is_locked, self.new_is_locked) = (false, false);
    }

    fn recover(&mut self, to: RefFormat) {
        if !self.noted {
            self.base = None;
            return;
        }
        match remedy(to, self.configured) {
            Remedy::Undo => self.new = None,
            Remedy::Finish => {
                let fence = steps(to).iter().position(|step| *step == Step::Fence).unwrap();
                steps(to)[fence..].iter().for_each(|step| self.run(to, *step));
            }
        }
        (self.noted, self.base) = (false, None);
    }

    /// Writes as a program does, to the place that its configuration named when it was read.
    fn write(&mut self, to: RefFormat, opened_as: RefFormat, value: Value) {
        let (place, is_locked) = match opened_as == to {
            true => (&mut self.new, self.new_is_locked),
            false => (&mut self.old, self.old_is_locked),
        };
        if !is_locked && let Some(place) = place {
            *place = value;
            self.acknowledged = value;
        }
    }

    fn read(&self, to: RefFormat) -> Option<Value> {
        if self.configured == to { self.new } else { self.old }
    }
}

/// Runs a migration with a crash before step `dies` and a write after step `writes`, and checks the end. If `is_late`,
/// the writer read the configuration before the migration began.
fn play(to: RefFormat, writes: usize, is_late: bool, dies: usize) {
    let mut world = World::new(to);
    let opened_as = world.configured;
    let all = steps(to);
    for (at, step) in all.iter().enumerate() {
        if at == dies {
            break;
        }
        world.run(to, *step);
        assert!(world.read(to).is_some(), "a reader finds a ref after {step:?}");
        if at == writes {
            let opened_as = if is_late { opened_as } else { world.configured };
            world.write(to, opened_as, 2);
        }
    }
    world.crash();
    // Readers need no recovery.
    assert!(world.read(to).is_some(), "a reader finds a ref before anything is mended");
    world.recover(to);
    assert_eq!(
        world.read(to),
        Some(world.acknowledged),
        "{to:?}: written after {writes}, late: {is_late}, died {dies}"
    );
    assert!(world.aside.is_none() && !world.noted, "nothing is left");
    let (there, gone) = if world.configured == to { (world.new, world.old) } else { (world.old, world.new) };
    assert!(there.is_some() && gone.is_none(), "there is one place");
}

#[test]
fn whatever_was_acknowledged_is_there_wherever_it_was_written_and_wherever_the_migration_dies() {
    for to in [RefFormat::Files, RefFormat::Reftable] {
        let count = steps(to).len();
        for writes in 0..count {
            for is_late in [false, true] {
                for dies in 0..=count {
                    play(to, writes, is_late, dies);
                }
            }
        }
    }
}

#[test]
fn the_copy_is_durable_before_it_counts_and_the_old_files_stay_until_they_were_looked_at() {
    let at = |to, wanted| steps(to).iter().position(|step| *step == wanted);
    for to in [RefFormat::Files, RefFormat::Reftable] {
        assert!(at(to, Step::Note) < at(to, Step::Install) && at(to, Step::Install) < at(to, Step::Sync));
        assert!(at(to, Step::Sync) < at(to, Step::Commit) && at(to, Step::Commit) < at(to, Step::Fence));
        assert_eq!(at(to, Step::Done), Some(steps(to).len() - 1));
    }
    assert!(at(RefFormat::Reftable, Step::HoldNew) < at(RefFormat::Reftable, Step::Commit));
    assert!(at(RefFormat::Reftable, Step::Fence) < at(RefFormat::Reftable, Step::Look));
}
