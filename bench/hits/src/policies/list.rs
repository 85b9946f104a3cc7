//! LRU and SIEVE, whose entries stand in one list.

use super::Policy;
use crate::traces::Key;
use std::collections::HashMap;

const NONE: u32 = u32::MAX;

/// An entry and its neighbours in the list.
#[derive(Clone, Copy)]
struct Link {
    key: Key,
    cost: u32,
    used: bool,
    before: u32,
    after: u32,
}

/// Entries in an order, and the sum of their costs.
struct List {
    at: HashMap<Key, u32>,
    links: Vec<Link>,
    free: Vec<u32>,
    first: u32,
    last: u32,
    cost: u64,
}

impl List {
    fn new() -> Self {
        List { at: HashMap::new(), links: Vec::new(), free: Vec::new(), first: NONE, last: NONE, cost: 0 }
    }

    /// Takes an entry out of the list and keeps its place.
    fn unlink(&mut self, at: u32) {
        let Link { before, after, .. } = self.links[at as usize];
        if before == NONE {
            self.first = after
        } else {
            self.links[before as usize].after = after
        }
        if after == NONE { self.last = before } else { self.links[after as usize].before = before }
    }

    /// Puts the entry that has this place at the end of the list.
    fn link_last(&mut self, at: u32) {
        let last = self.last;
        (self.links[at as usize].before, self.links[at as usize].after) = (last, NONE);
        if last == NONE {
            self.first = at
        } else {
            self.links[last as usize].after = at
        }
        self.last = at;
    }

    /// Adds a key at the end.
    fn push(&mut self, key: Key, cost: u32) {
        let link = Link { key, cost, used: false, before: NONE, after: NONE };
        let at = match self.free.pop() {
            Some(at) => {
                self.links[at as usize] = link;
                at
            }
            None => {
                self.links.push(link);
                self.links.len() as u32 - 1
            }
        };
        self.link_last(at);
        self.at.insert(key, at);
        self.cost += u64::from(cost);
    }

    fn remove(&mut self, at: u32) {
        let Link { key, cost, .. } = self.links[at as usize];
        self.unlink(at);
        self.at.remove(&key);
        self.free.push(at);
        self.cost -= u64::from(cost);
    }
}

/// Evicts the least recently used entry.
pub struct Lru {
    room: u64,
    list: List,
}

impl Lru {
    /// With this much room.
    pub fn new(room: u64) -> Self {
        Lru { room, list: List::new() }
    }

    #[cfg(test)]
    pub(super) fn used(&self) -> u64 {
        self.list.cost
    }
}

impl Policy for Lru {
    fn get_or_put(&mut self, key: Key, cost: u32) -> bool {
        let list = &mut self.list;
        if let Some(&at) = list.at.get(&key) {
            list.unlink(at);
            list.link_last(at);
            return true;
        }
        if u64::from(cost) <= self.room {
            while list.cost + u64::from(cost) > self.room {
                list.remove(list.first);
            }
            list.push(key, cost);
        }
        false
    }
}

/// Zhang et al., "SIEVE is simpler than LRU" (NSDI 2024). A hand goes from old entries to new ones. It spares what was
/// used since it last passed, and entries never move.
pub struct Sieve {
    room: u64,
    list: List,
    hand: u32,
}

impl Sieve {
    /// With this much room.
    pub fn new(room: u64) -> Self {
        Sieve { room, list: List::new(), hand: NONE }
    }

    fn evict(&mut self) {
        loop {
            let at = if self.hand == NONE { self.list.first } else { self.hand };
            let link = &mut self.list.links[at as usize];
            self.hand = link.after;
            if !std::mem::take(&mut link.used) {
                return self.list.remove(at);
            }
        }
    }

    #[cfg(test)]
    pub(super) fn used(&self) -> u64 {
        self.list.cost
    }
}

impl Policy for Sieve {
    fn get_or_put(&mut self, key: Key, cost: u32) -> bool {
        if let Some(&at) = self.list.at.get(&key) {
            self.list.links[at as usize].used = true;
            return true;
        }
        if u64::from(cost) <= self.room {
            while self.list.cost + u64::from(cost) > self.room {
                self.evict();
            }
            self.list.push(key, cost);
        }
        false
    }
}
