//! Additions of several processes that become one: each costs a turn of microseconds instead of a lock, two files and
//! their syncs.
//!
//! A writer that has locked the list and is about to commit, the leader, gives those that wait in its queue to join it
//! a turn each, one after the other. It sends the table that it is about to add. The member reads the stack with that
//! table on top, checks its own transaction against this state, and answers with a table that contains the records of
//! both. In the end the leader writes the last table, replaces the list once, and tells every member the outcome.
//!
//! ```text
//! member: "I join"     leader: the table so far     member: that table and its own records     leader: done
//! ```
//!
//! Only the leader writes to the stack, and it depends on no member: one that is killed, stopped or slow in its turn is
//! left out, and has changed nothing. If the leader is killed, a member finds out by the file of the new list, of which
//! it holds a descriptor, whether the list was replaced: it was if the file now has the list's name, or if it has lost
//! its first name and is neither empty nor marked as given up. Otherwise the member begins anew. The answer is wrong if
//! the written list of a killed leader is removed without that mark, as people do by hand.

use super::{
    Snapshot, Stack, StackError,
    backoff::{EXPECT_STRANGERS, Past},
};
use refdb_vfs::{
    Channel, File, Fs, Lock, LockTimeout, QueueHead, Received, Relay, Stat, give_up_content, interrupt,
    is_content_given_up, monotonic_nanos,
};
use std::{
    path::Path,
    time::{Duration, Instant},
};

/// How long a member may take for its turn. The lock is held meanwhile.
const TURN_MAX: Duration = Duration::from_millis(50);

/// No further members are taken once a group has gathered for this time.
const GATHER_MAX: Duration = Duration::from_millis(10);

/// The most members of a group.
const MEMBERS_MAX: usize = 256;

/// No further members are taken once the table is larger than this, because each of them copies it.
pub(super) const FULL_BYTES: usize = 24 << 10;

/// The largest table that a member answers with.
const TABLE_BYTES_MAX: usize = 48 << 10;

/// How long a member still waits for the outcome once a signal has told the member to end.
const LEAVE_AFTER: Duration = Duration::from_secs(1);

/// How often a member looks whether another one has removed the lock of their dead leader.
const REMOVED_EVERY: Duration = Duration::from_micros(200);

/// The least time for which a group leaves the lock to a writer outside the queue that is expected to write. The group
/// leaves the lock for three times the time for which it held it, if that is more, but the queue waits for 10 ms at
/// most. Git pauses for a millisecond after a failed attempt, and longer after each further one, and JGit does not wait
/// for the lock at all; with this minimum and this factor together, each of the two gets at least half of an equal
/// share.
const FREE_MIN: Duration = Duration::from_millis(4);

/// A leader's group: the members, which wait for the outcome, and the queue from which they come.
#[derive(Debug)]
pub(super) struct Group {
    head: QueueHead,
    members: Vec<Channel>,
    begun: Instant,
    is_told: bool,
}

impl Group {
    pub(super) fn new(head: QueueHead) -> Self {
        Group { head, members: Vec::new(), begun: Instant::now(), is_told: false }
    }

    /// Returns whether other writers wait for the outcome.
    pub(super) fn has_members(&self) -> bool {
        !self.members.is_empty()
    }

    /// Gives the next waiting writer a turn on top of `table`, and returns its answer. `None` if nobody waits for a
    /// turn, or if the group takes no more members.
    pub(super) fn next_turn(&mut self, new_list: NewList, listed: usize, table: &[u8]) -> Option<(Channel, Vec<u8>)> {
        let offer = Offer { new_list, listed: listed as u64, table }.encode();
        while self.members.len() < MEMBERS_MAX && table.len() <= FULL_BYTES && self.begun.elapsed() < GATHER_MAX {
            let member = self.head.next_joining()?;
            if !member.give_turn(&offer) {
                continue;
            }
            match member.receive(TURN_MAX) {
                Received::Message(answer, _) => return Some((member, answer)),
                Received::Nothing => self.leave_out(&member),
                Received::Ended => {}
            }
        }
        None
    }

    /// Adds the writer of an answer that was accepted to the members.
    pub(super) fn accept(&mut self, member: Channel) {
        self.members.push(member);
    }

    /// Tells a writer that its records are not in the group.
    pub(super) fn leave_out(&self, member: &Channel) {
        // One that is gone needs no answer.
        member.send_bytes(&Outcome::GivenUp.encode());
    }

    /// Describes the group for the next turns of its writers: the leader `found` this stack, `left` this next update
    /// index, and held the lock for this time. If the newest table is that of a writer outside the queue, such as git,
    /// and the last head of the queue did not know the table, the lock stays free for a while.
    pub(super) fn past(&mut self, stack: &Stack, found: &Snapshot, left: u64, took: Duration) -> Past {
        let (now, relay) = (monotonic_nanos(), &mut self.head.relay);
        let after = |duration: Duration| now.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
        let has_other_newest = || found.tables().last().is_some_and(|newest| !newest.name.is_by(stack.writers()));
        if relay.left != found.next_update_index() && has_other_newest() {
            relay.strangers_until = after(EXPECT_STRANGERS);
        }
        relay.left = left;
        relay.free_until = if now < relay.strangers_until { after((took * 3).max(FREE_MIN)) } else { 0 };
        Past {
            writers: self.members.len() as u32 + 1,
            took_micros: u32::try_from(took.as_micros()).unwrap_or(u32::MAX),
            relay: *relay,
        }
    }

    /// Tells all members the outcome.
    pub(super) fn tell(&mut self, outcome: Outcome) {
        self.is_told = true;
        let message = outcome.encode();
        for member in self.members.drain(..) {
            member.send_bytes(&message);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // After a panic nobody knows how far the leader got, and the members look for themselves.
        if !self.is_told && !std::thread::panicking() {
            self.tell(Outcome::GivenUp);
        }
    }
}

/// What a leader tells its members in the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    /// The list was replaced, or nobody had any records to add.
    Done {
        /// Whether the change is durable, if the options ask for that.
        is_durable: bool,
        /// The group, as its writers remember it for their next turns.
        group: Past,
    },
    /// Nothing was changed.
    GivenUp,
}

impl Outcome {
    pub(super) fn encode(self) -> Vec<u8> {
        match self {
            Outcome::GivenUp => vec![0],
            Outcome::Done { is_durable, group: Past { writers, took_micros, relay } } => {
                let mut message = vec![1 + u8::from(is_durable)];
                message.extend_from_slice(&writers.to_le_bytes());
                message.extend_from_slice(&took_micros.to_le_bytes());
                message.extend_from_slice(&relay.encode());
                message
            }
        }
    }

    pub(super) fn decode(message: &[u8]) -> Option<Self> {
        match message {
            [0] => Some(Outcome::GivenUp),
            [kind @ (1 | 2), rest @ ..] => {
                let (writers, rest) = rest.split_first_chunk::<4>()?;
                let (took_micros, relay) = rest.split_first_chunk::<4>()?;
                let (writers, took_micros) = (u32::from_le_bytes(*writers), u32::from_le_bytes(*took_micros));
                let group = Past { writers, took_micros, relay: Relay::decode(relay)? };
                Some(Outcome::Done { is_durable: *kind == 2, group })
            }
            _ => None,
        }
    }
}

/// The file in which the leader writes the new list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct NewList {
    /// The device and inode number of the file.
    pub(super) file: (u64, u64),
    /// Whether the new list is in another file than the lock, because the lock is signed.
    pub(super) is_signed: bool,
}

/// The state that a leader gives to a member.
#[derive(PartialEq, Eq, Debug)]
struct Offer<'a> {
    new_list: NewList,
    /// The number of tables in the list.
    listed: u64,
    /// The table that the leader is about to add; empty if there is none yet.
    table: &'a [u8],
}

impl<'a> Offer<'a> {
    fn encode(&self) -> Vec<u8> {
        let mut message = Vec::with_capacity(32 + self.table.len());
        let NewList { file: (device, inode), is_signed } = self.new_list;
        for number in [device, inode, u64::from(is_signed), self.listed] {
            message.extend_from_slice(&number.to_le_bytes());
        }
        message.extend_from_slice(self.table);
        message
    }

    fn decode(message: &'a [u8]) -> Option<Self> {
        let (numbers, table) = message.split_at_checked(32)?;
        let number = |at: usize| numbers[at..].first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
        let new_list = NewList { file: (number(0)?, number(8)?), is_signed: number(16)? != 0 };
        Some(Offer { new_list, listed: number(24)?, table })
    }
}

/// A member's turn under the lock of the leader.
#[derive(Debug)]
pub(super) struct Turn {
    channel: Channel,
    /// The file of the new list.
    new_list: File,
    is_signed: bool,
    lock_timeout: LockTimeout,
    pub(super) listed: usize,
    /// The records of the leader and of those that had their turn before, as a table; empty if there are none.
    pub(super) table: Vec<u8>,
}

impl Turn {
    /// Begins a turn. `None` if the lock is not that of this stack's list, or the message is of no use.
    pub(super) fn begin(stack: &Stack, turn: refdb_vfs::Turn, lock_timeout: LockTimeout) -> Option<Self> {
        let offer = Offer::decode(&turn.content)?;
        let NewList { file, is_signed } = offer.new_list;
        let new_list = stack.fs().open_to_overwrite(&Lock::content_path_of(stack.list_path(), is_signed)).ok()?;
        let is_meant = new_list.stat().is_ok_and(|stat| stat.file_id() == file);
        let (listed, table) = (usize::try_from(offer.listed).ok()?, offer.table.to_vec());
        is_meant.then_some(Turn { channel: turn.channel, new_list, is_signed, lock_timeout, listed, table })
    }

    /// Answers with the table of all records so far, or with nothing if this writer adds none, and waits until the
    /// leader has committed.
    pub(super) fn end(self, stack: &Stack, table: &[u8]) -> Result<Past, StackError> {
        if table.len() > TABLE_BYTES_MAX || !self.channel.send_bytes(&[&[0], table].concat()) {
            return Err(StackError::GroupGivenUp);
        }
        let (begun, mut signalled): (_, Option<Instant>) = (Instant::now(), None);
        loop {
            match self.channel.receive(Duration::from_millis(50)) {
                Received::Message(message, _) => match Outcome::decode(&message) {
                    Some(Outcome::Done { is_durable, group }) => {
                        if !is_durable {
                            // The leader could not sync the folder; perhaps this process can.
                            stack.sync_names().map_err(StackError::NotDurable)?;
                        }
                        return Ok(group);
                    }
                    Some(Outcome::GivenUp) => return Err(StackError::GroupGivenUp),
                    None => return Err(StackError::OutcomeUnknown),
                },
                Received::Ended => return judge(stack, &self.new_list, self.is_signed, self.lock_timeout),
                Received::Nothing => {
                    if interrupt::check().is_err() {
                        signalled.get_or_insert_with(Instant::now);
                    }
                    if is_lost(begun.elapsed(), signalled.map(|at| at.elapsed()), self.lock_timeout) {
                        return Err(StackError::OutcomeUnknown);
                    }
                }
            }
        }
    }
}

/// Finds out what came of the group after its leader has ended without telling the outcome. `new_list` is the file in
/// which the leader wrote the new list.
fn judge(stack: &Stack, new_list: &File, is_signed: bool, lock_timeout: LockTimeout) -> Result<Past, StackError> {
    let path = Lock::content_path_of(stack.list_path(), is_signed);
    let was_replaced = || {
        let own = new_list.stat()?.file_id();
        if is_at(stack.fs(), &path, own)? {
            // A signed lock is removed by the next writer that wants it. If the removal of an unsigned one fails, it is
            // in the way of the next writer, who is told so.
            if !is_signed {
                let _ = remove_dead(stack.fs(), new_list, &path, lock_timeout);
            }
            return Ok(false);
        }
        // A list that was replaced in turn has no name any more; that of a leader is never an empty file.
        Ok::<_, StackError>(is_at(stack.fs(), stack.list_path(), own)? || !is_content_given_up(new_list)?)
    };
    match was_replaced() {
        Ok(true) => {}
        Ok(false) => return Err(StackError::GroupGivenUp),
        Err(_) => return Err(StackError::OutcomeUnknown),
    }
    stack.sync_names().map_err(StackError::NotDurable)?;
    Ok(Past::default())
}

/// Returns whether a member stops waiting for the outcome, because a leader that is stopped may never go on:
/// [`LEAVE_AFTER`] after a signal, or once it has waited for as long as a writer waits for all holders of a lock
/// together.
fn is_lost(waited: Duration, since_signal: Option<Duration>, lock_timeout: LockTimeout) -> bool {
    let has_limit = |limit: Duration| waited >= limit;
    since_signal.is_some_and(|since| since >= LEAVE_AFTER) || lock_timeout.of_all_holders().is_some_and(has_limit)
}

/// Whether the file of this identity has the name `path`.
fn is_at(fs: &Fs, path: &Path, file: (u64, u64)) -> Result<bool, StackError> {
    Ok(fs.find_link(path)?.as_ref().map(Stat::file_id) == Some(file))
}

/// Removes the lock of a leader that was killed. The members agree by `flock(2)` on the file which of them does so, so
/// that none removes the lock of a writer that came after.
///
/// One that is stopped meanwhile leaves the lock where it is. The others wait for `lock_timeout` at most, and then
/// begin anew, as writers that find the lock held.
fn remove_dead(fs: &Fs, file: &File, lock: &Path, lock_timeout: LockTimeout) -> Result<(), StackError> {
    let (begun, own) = (Instant::now(), file.stat()?.file_id());
    while !file.try_lock()? {
        if lock_timeout.is_over(begun.elapsed()) || interrupt::check().is_err() || !is_at(fs, lock, own)? {
            return Ok(());
        }
        std::thread::sleep(REMOVED_EVERY);
    }
    if is_at(fs, lock, own)? {
        give_up_content(file)?;
        fs.remove_existing(lock)?;
    }
    Ok(())
}

/// The table in a member's answer, without the byte that keeps the answer from being empty; `None` if the answer is
/// malformed.
pub(super) fn table_of(answer: &[u8]) -> Option<&[u8]> {
    answer.split_first().filter(|(first, table)| **first == 0 && table.len() <= TABLE_BYTES_MAX).map(|(_, table)| table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{WriteOptions, stack::StackOptions};
    use proptest::prelude::*;
    use refdb_types::HashKind;
    use refdb_vfs::{IoHook, Op, Verdict};
    use std::sync::Arc;

    proptest! {
        #[test]
        fn messages_are_decoded_as_they_were_encoded(
            numbers: [u64; 6], flags: [bool; 2], writers: u32, took_micros: u32, table: Vec<u8>,
        ) {
            let [device, inode, listed, left, strangers_until, free_until] = numbers;
            let new_list = NewList { file: (device, inode), is_signed: flags[0] };
            let offer = Offer { new_list, listed, table: &table };
            let encoded = offer.encode();
            prop_assert_eq!(Offer::decode(&encoded), Some(offer));
            let relay = Relay { left, strangers_until, free_until };
            let done = Outcome::Done { is_durable: flags[1], group: Past { writers, took_micros, relay } };
            for outcome in [done, Outcome::GivenUp] {
                prop_assert_eq!(Outcome::decode(&outcome.encode()), Some(outcome));
            }
        }

        #[test]
        fn any_bytes_are_a_message_or_none(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            if let Some(outcome) = Outcome::decode(&bytes) {
                prop_assert!(outcome == Outcome::GivenUp || bytes.len() == 9 + Relay::BYTES);
            }
            prop_assert_eq!(Offer::decode(&bytes).is_some(), bytes.len() >= 32);
            prop_assert_eq!(table_of(&bytes).is_some(), bytes.first() == Some(&0));
        }
    }

    /// Removes nothing.
    struct Keeps;

    impl IoHook for Keeps {
        fn before(&self, op: Op<'_>) -> Verdict {
            match op {
                Op::Remove(_) => Verdict::Fail(std::io::ErrorKind::PermissionDenied.into()),
                _ => Verdict::Proceed,
            }
        }
    }

    /// Previously, an error of the disk was taken to mean that nothing was changed.
    #[test]
    fn what_became_of_the_group_of_a_dead_leader_is_unknown_only_if_it_cannot_be_read() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("reftable");
        std::fs::create_dir(&folder).unwrap();
        let options = StackOptions::new(WriteOptions::new(HashKind::Sha1));
        let stack = Stack::open(Fs::with_hook(Arc::new(Keeps)), &folder, options).unwrap();
        let path = Lock::path_of(stack.list_path());
        std::fs::write(&path, "").unwrap();
        let new_list = stack.fs().open_to_overwrite(&path).unwrap();
        let told = || judge(&stack, &new_list, false, LockTimeout::None);
        assert!(matches!(told(), Err(StackError::GroupGivenUp)), "{:?}", told());
        std::fs::rename(&folder, dir.path().join("elsewhere")).unwrap();
        std::os::unix::fs::symlink("reftable", &folder).unwrap();
        assert!(matches!(told(), Err(StackError::OutcomeUnknown)), "{:?}", told());
    }

    #[test]
    fn a_leader_that_is_stopped_is_not_waited_for_without_end() {
        let (second, tenth) = (Duration::from_secs(1), LockTimeout::For(Duration::from_millis(100)));
        assert!(!is_lost(second * 59, None, tenth) && is_lost(second * 60, None, tenth));
        assert!(!is_lost(second * 60, None, LockTimeout::For(second * 2)));
        assert!(!is_lost(second * 10_000, None, LockTimeout::Forever));
        for lock_timeout in [tenth, LockTimeout::Forever] {
            assert!(!is_lost(second, Some(second / 2), lock_timeout) && is_lost(second, Some(second), lock_timeout));
        }
    }

    #[test]
    fn a_member_that_is_stopped_while_it_removes_a_dead_leaders_lock_holds_nobody_up_without_end() {
        let dir = tempfile::tempdir().unwrap();
        let (fs, path) = (Fs::real(), dir.path().join("tables.list.lock"));
        std::fs::write(&path, "0x1.ref\n").unwrap();
        let [stopped, member, late] = [(); 3].map(|()| fs.open_to_overwrite(&path).unwrap());
        assert!(stopped.try_lock().unwrap());
        remove_dead(&fs, &member, &path, LockTimeout::For(Duration::from_millis(20))).unwrap();
        assert!(path.exists(), "the one that is stopped may still remove it");
        // Once it has done so, nobody waits.
        std::thread::scope(|scope| {
            scope.spawn(|| remove_dead(&fs, &late, &path, LockTimeout::Forever).unwrap());
            std::fs::remove_file(&path).unwrap();
        });
        std::fs::write(&path, "the lock of the next writer").unwrap();
        drop(stopped);
        remove_dead(&fs, &member, &path, LockTimeout::Forever).unwrap();
        assert!(path.exists(), "it is another lock");
    }
}
