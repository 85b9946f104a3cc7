//! The model: a disk, etcd, and a process whose threads write in groups. Every order of events is explored.

use crate::Fault;
use crate::member::{Change, Mark, Member, Ref, Stage, Told};
use refdb_testkit::orders::{Explorable, every_order};
use std::ops::AddAssign;

/// The maximum number of occurrences of each kind of trouble.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Budget {
    /// Answers that are lost.
    pub(crate) lost: u8,
    /// Marks that a member cannot close after it has waited in vain for an answer.
    pub(crate) unknown: u8,
    /// Threads that hang.
    pub(crate) hangs: u8,
    /// Leaders that continue without a thread that is merely slow.
    pub(crate) leaders_bounds: u8,
    pub(crate) crashes: u8,
    /// Refs that a node with another disk changes in etcd.
    pub(crate) foreign: u8,
}

/// The value of a ref in etcd.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum There {
    Known(bool),
    /// Another node has changed it.
    Foreign,
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct World {
    disk: [bool; 3],
    etcd: [There; 3],
    members: [Member; 3],
    /// Whether a leader holds the lock.
    is_locked: bool,
    /// Whether the table is listed and the leader has not reported that yet.
    is_listed: bool,
    is_dead: bool,
    budget: Budget,
}

/// Statistics of the exploration.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Explored {
    pub(crate) states: usize,
    /// Tables with more than one member.
    pub(crate) together: usize,
    /// Tables that were listed while some of the members that the leader had checked had no result.
    pub(crate) partly: usize,
    /// Members that heard of etcd's agreement after the leader had continued without them.
    pub(crate) late_words: usize,
    /// Agreed members whose changes reached the disk by way of their intents.
    pub(crate) finished: usize,
    /// Members that were refused because of an open intent.
    pub(crate) barred: usize,
}

impl AddAssign for Explored {
    fn add_assign(&mut self, other: Self) {
        self.states += other.states;
        self.together += other.together;
        self.partly += other.partly;
        self.late_words += other.late_words;
        self.finished += other.finished;
        self.barred += other.barred;
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// A thread takes the lock, and checks all members that wait.
    Lead,
    Place(usize),
    Ask(usize),
    /// Etcd evaluates the request. The flag says whether the answer arrives.
    Serve(usize, bool),
    /// There was no answer in time, so the mark is closed.
    Close(usize),
    /// There was no answer to the closing of the mark either.
    GiveUp(usize),
    Hang(usize),
    /// The leader continues without the members that have not reported.
    GoOn,
    IntentsGoFirst,
    /// The table is listed, and the lock is released.
    List,
    IntentsGo,
    Foreign(Ref),
    Crash,
    Settle(usize),
}

impl World {
    pub(crate) fn new(disk: [bool; 3], changes: [Change; 3], budget: Budget) -> Self {
        World {
            disk,
            etcd: disk.map(There::Known),
            members: changes.map(Member::new),
            is_locked: false,
            is_listed: false,
            is_dead: false,
            budget,
        }
    }

    fn has(&self, at: usize, is: fn(&Member) -> bool) -> bool {
        is(&self.members[at])
    }

    fn events_of(&self, at: usize, events: &mut Vec<Event>) {
        let member = &self.members[at];
        match member.stage {
            Stage::Checked => events.push(Event::Place(at)),
            Stage::Placed => events.push(Event::Ask(at)),
            Stage::Asked => {
                events.push(Event::Close(at));
                if self.budget.unknown > 0 {
                    events.push(Event::GiveUp(at));
                }
            }
            _ => {}
        }
        if self.budget.hangs > 0 && matches!(member.stage, Stage::Checked | Stage::Placed | Stage::Asked) {
            events.push(Event::Hang(at));
        }
        if member.is_sent {
            events.push(Event::Serve(at, true));
            if self.budget.lost > 0 {
                events.push(Event::Serve(at, false));
            }
        }
        // A live process does not recover an intent with which its own thread is still busy.
        if member.has_intent && !self.is_locked && !self.is_listed && member.stage == Stage::Ended {
            events.push(Event::Settle(at));
        }
    }

    /// Checks all waiting members against the disk. A member that depends on the change of another stays in the queue.
    fn lead(&mut self, fault: Fault, explored: &mut Explored) {
        let mut disk = self.disk;
        let mut taken: Vec<Ref> = Vec::new();
        self.is_locked = true;
        for at in 0..self.members.len() {
            let Member { change, stage, .. } = self.members[at];
            let waits = fault != Fault::CheckedAgainstAnother && taken.iter().any(|name| name.is_near(change.name));
            if stage != Stage::Waiting || waits {
                continue;
            }
            let rival_is_there = change.name.rival().is_some_and(|rival| disk[rival as usize]);
            if disk[change.name as usize] == change.creates || change.creates && rival_is_there {
                self.members[at].end(Told::Failure);
            } else if self.is_barred(change.name, fault) {
                explored.barred += 1;
                self.members[at].end(Told::Failure);
            } else {
                if fault == Fault::CheckedAgainstAnother {
                    disk[change.name as usize] = change.creates;
                }
                taken.push(change.name);
                (self.members[at].stage, self.members[at].is_waited_for) = (Stage::Checked, true);
            }
        }
    }

    fn is_barred(&self, name: Ref, fault: Fault) -> bool {
        self.members.iter().filter(|member| member.has_intent).any(|member| {
            let other = member.change.name;
            if fault == Fault::IntentBarsItsNamesAlone { other == name } else { other.is_near(name) }
        })
    }

    fn serve(&mut self, at: usize) -> Result<(), String> {
        let member = &mut self.members[at];
        member.is_sent = false;
        if member.mark != Mark::Open {
            return Ok(());
        }
        let there = &mut self.etcd[member.change.name as usize];
        if *there != There::Known(!member.change.creates) {
            member.mark = Mark::Refused;
            return Ok(());
        }
        (*there, member.mark) = (There::Known(member.change.creates), Mark::Done);
        match member.told {
            Some(Told::Failure) => Err(format!("{member:?} applies after its failure was reported")),
            _ => Ok(()),
        }
    }

    fn close(&mut self, at: usize) {
        if self.has(at, |member| member.mark == Mark::Open) {
            self.members[at].mark = Mark::Void;
        }
    }

    /// Tells the member how its mark was closed.
    fn hear(&mut self, at: usize, fault: Fault, explored: &mut Explored) -> Result<(), String> {
        let member = &mut self.members[at];
        match member.mark {
            Mark::Open => unreachable!("an answer says how it ended"),
            Mark::Done if member.is_waited_for => {
                (member.stage, member.is_waited_for) = (Stage::Agreed, false);
                Ok(())
            }
            Mark::Done if fault == Fault::LateWordCounts => self.succeed(at),
            Mark::Done => {
                explored.late_words += 1;
                member.end(Told::Unknown);
                Ok(())
            }
            Mark::Refused | Mark::Void => {
                member.has_intent = false;
                if fault == Fault::RefusedInTheTable && member.is_waited_for {
                    (member.stage, member.is_waited_for) = (Stage::Agreed, false);
                    return Ok(());
                }
                self.fail(at)
            }
        }
    }

    fn list(&mut self, explored: &mut Explored) -> Result<(), String> {
        (self.is_locked, self.is_listed) = (false, true);
        let is_out =
            |member: &&Member| matches!(member.stage, Stage::Checked | Stage::Placed | Stage::Asked | Stage::Hangs);
        explored.partly += usize::from(self.members.iter().any(|member| is_out(&member)));
        let mut count = 0;
        for at in 0..self.members.len() {
            if self.has(at, |member| member.stage == Stage::Agreed) {
                count += 1;
                self.make(at)?;
            }
        }
        explored.together += usize::from(count > 1);
        Ok(())
    }

    fn make(&mut self, at: usize) -> Result<(), String> {
        let member = &mut self.members[at];
        self.disk[member.change.name as usize] = member.change.creates;
        member.is_made = true;
        if member.mark != Mark::Done {
            return Err(format!("{member:?} is on the disk, and etcd did not agree"));
        }
        if self.disk[Ref::Folder as usize] && self.disk[Ref::Child as usize] {
            return Err(format!("{member:?} makes a folder and a file of one name"));
        }
        Ok(())
    }

    fn succeed(&mut self, at: usize) -> Result<(), String> {
        self.members[at].end(Told::Success);
        if self.has(at, |member| !member.is_made || member.mark != Mark::Done) {
            return Err(format!("{:?} is acknowledged, and not made", self.members[at]));
        }
        Ok(())
    }

    fn fail(&mut self, at: usize) -> Result<(), String> {
        self.members[at].end(Told::Failure);
        if self.has(at, |member| member.is_made || member.mark == Mark::Done) {
            return Err(format!("{:?} has applied, and its failure is reported", self.members[at]));
        }
        Ok(())
    }

    /// Recovers an intent: closes the mark, and then makes the change on the disk if etcd has it.
    fn settle(&mut self, at: usize, explored: &mut Explored) -> Result<(), String> {
        self.close(at);
        let Change { name, creates } = self.members[at].change;
        self.members[at].has_intent = false;
        if self.etcd[name as usize] != There::Known(creates) || self.disk[name as usize] == creates {
            return Ok(());
        }
        if creates && name.rival().is_some_and(|rival| self.disk[rival as usize]) {
            return Err(format!("{:?}: etcd has it, and the disk cannot have it", self.members[at]));
        }
        explored.finished += 1;
        self.make(at)
    }

    /// Checks what must hold when no event can follow but a crash or a change by another node.
    fn at_the_end(&self) -> Result<(), String> {
        for member in &self.members {
            if !self.is_dead && matches!(member.stage, Stage::Waiting | Stage::Agreed) {
                return Err(format!("{member:?} waits for ever"));
            }
            if member.mark == Mark::Done && !member.is_made && !member.has_intent {
                return Err(format!("{member:?} has applied, and no disk has it"));
            }
        }
        Ok(())
    }
}

impl Explorable for World {
    type Event = Event;
    type Fault = Fault;
    type Seen = Explored;

    fn events(&self, fault: Fault) -> Vec<Event> {
        let mut events = Vec::new();
        let any = |is: fn(&Member) -> bool| self.members.iter().any(is);
        if !self.is_dead {
            if !self.is_locked && !self.is_listed && any(|member| member.stage == Stage::Waiting) {
                events.push(Event::Lead);
            }
            if self.is_locked {
                let is_waiting = any(|member| member.is_waited_for);
                let is_first = fault == Fault::IntentGoesBeforeTheList;
                let has_agreed_intent = any(|member| member.stage == Stage::Agreed && member.has_intent);
                let hangs = any(|member| member.is_waited_for && member.stage == Stage::Hangs);
                let has_bound = fault != Fault::NoBound && (hangs || self.budget.leaders_bounds > 0);
                match (is_waiting, is_first && has_agreed_intent) {
                    (true, _) if has_bound => events.push(Event::GoOn),
                    (true, _) => {}
                    (false, true) => events.push(Event::IntentsGoFirst),
                    (false, false) => events.push(Event::List),
                }
            }
            if self.is_listed {
                events.push(Event::IntentsGo);
            }
            if self.budget.crashes > 0 {
                events.push(Event::Crash);
            }
        }
        for at in 0..self.members.len() {
            self.events_of(at, &mut events);
        }
        if self.budget.foreign > 0 {
            events.extend([Ref::Folder, Ref::Child, Ref::Other].map(Event::Foreign));
        }
        events
    }

    fn happen(&mut self, event: Event, fault: Fault, explored: &mut Explored) -> Result<(), String> {
        match event {
            Event::Lead => self.lead(fault, explored),
            Event::Place(at) => {
                self.members[at].has_intent = true;
                self.members[at].stage = Stage::Placed;
            }
            Event::Ask(at) if self.has(at, |member| !member.is_waited_for) && fault != Fault::AsksAfterTheLeader => {
                self.members[at].has_intent = false;
                return self.fail(at);
            }
            Event::Ask(at) => {
                self.members[at].is_sent = true;
                self.members[at].stage = Stage::Asked;
            }
            Event::Serve(at, is_answered) => {
                self.serve(at)?;
                self.budget.lost -= u8::from(!is_answered);
                if is_answered && self.has(at, |member| member.stage == Stage::Asked) {
                    return self.hear(at, fault, explored);
                }
            }
            Event::Close(at) => {
                self.close(at);
                return self.hear(at, fault, explored);
            }
            Event::GiveUp(at) => {
                self.budget.unknown -= 1;
                if fault == Fault::UndecidedIsAgreed && self.has(at, |member| member.is_waited_for) {
                    self.members[at].stage = Stage::Agreed;
                    self.members[at].is_waited_for = false;
                } else {
                    self.members[at].end(Told::Unknown);
                }
            }
            Event::Hang(at) => {
                self.budget.hangs -= 1;
                self.members[at].stage = Stage::Hangs;
            }
            Event::GoOn => {
                self.budget.leaders_bounds = self.budget.leaders_bounds.saturating_sub(1);
                for member in self.members.iter_mut().filter(|member| member.is_waited_for) {
                    member.is_waited_for = false;
                    if fault == Fault::UndecidedIsAgreed {
                        member.stage = Stage::Agreed;
                    }
                }
            }
            Event::IntentsGoFirst => {
                let agreed = self.members.iter_mut().filter(|member| member.stage == Stage::Agreed);
                agreed.for_each(|member| member.has_intent = false);
            }
            Event::List => return self.list(explored),
            Event::IntentsGo => {
                self.is_listed = false;
                for at in 0..self.members.len() {
                    if self.has(at, |member| member.stage == Stage::Agreed) {
                        self.members[at].has_intent = false;
                        self.succeed(at)?;
                    }
                }
            }
            Event::Foreign(name) => {
                self.budget.foreign -= 1;
                // No other node has the object yet that a member has put there.
                if self.etcd[name as usize] == There::Known(self.disk[name as usize]) {
                    self.etcd[name as usize] = There::Foreign;
                }
            }
            Event::Crash => {
                self.budget.crashes -= 1;
                (self.is_dead, self.is_locked, self.is_listed) = (true, false, false);
                for member in &mut self.members {
                    (member.stage, member.is_waited_for) = (Stage::Ended, false);
                }
            }
            Event::Settle(at) => return self.settle(at, explored),
        }
        Ok(())
    }

    fn look(&self, events: &[Event]) -> Result<(), String> {
        match events.iter().all(|event| matches!(event, Event::Foreign(_) | Event::Crash)) {
            true => self.at_the_end(),
            false => Ok(()),
        }
    }
}

/// Explores every order of events.
///
/// # Errors
///
/// The events that led to a broken promise, followed by that promise.
pub(crate) fn explore(world: &World, fault: Fault) -> Result<Explored, Vec<String>> {
    let (states, seen) = every_order(world, fault)?;
    Ok(Explored { states, ..seen })
}
