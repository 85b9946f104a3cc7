//! The rivals: exact LRU and S3-FIFO as their papers have them, W-TinyLFU by moka, quick_cache. All hold as many
//! entries as the bytes have room for, without headers, files or reserves.

use crate::traces::Key;
use std::collections::{HashMap, VecDeque};

/// A cache of keys with equal costs.
pub trait Policy {
    /// Whether the key is there; if not, it is put.
    fn get_or_put(&mut self, key: Key) -> bool;
}

/// A key and its neighbours by last use.
#[derive(Clone, Copy)]
struct Link {
    key: Key,
    before: u32,
    after: u32,
}

const NONE: u32 = u32::MAX;

/// LRU: the key whose last use is longest ago is evicted.
pub struct Lru {
    room: usize,
    at: HashMap<Key, u32>,
    links: Vec<Link>,
    first: u32,
    last: u32,
}

impl Lru {
    /// With room for this number of keys.
    pub fn new(room: usize) -> Self {
        Lru { room, at: HashMap::new(), links: Vec::new(), first: NONE, last: NONE }
    }

    fn unlink(&mut self, at: u32) {
        let Link { before, after, .. } = self.links[at as usize];
        if before == NONE { self.first = after } else { self.links[before as usize].after = after }
        if after == NONE { self.last = before } else { self.links[after as usize].before = before }
    }

    fn push(&mut self, at: u32, key: Key) {
        self.links[at as usize] = Link { key, before: self.last, after: NONE };
        if self.last == NONE { self.first = at } else { self.links[self.last as usize].after = at }
        self.last = at;
    }
}

impl Policy for Lru {
    fn get_or_put(&mut self, key: Key) -> bool {
        if let Some(&at) = self.at.get(&key) {
            self.unlink(at);
            self.push(at, key);
            return true;
        }
        let at = if self.links.len() < self.room {
            self.links.push(Link { key, before: NONE, after: NONE });
            self.links.len() as u32 - 1
        } else {
            let at = self.first;
            self.at.remove(&self.links[at as usize].key);
            self.unlink(at);
            at
        };
        self.push(at, key);
        self.at.insert(key, at);
        false
    }
}

/// Yang et al., "FIFO queues are all you need for cache eviction" (SOSP 2023). A tenth is for new entries, a main queue
/// lets used entries go round, and lately dropped keys are remembered.
pub struct S3Fifo {
    room: usize,
    entries: HashMap<Key, (u8, bool)>,
    small: VecDeque<Key>,
    main: VecDeque<Key>,
    ghost: VecDeque<Key>,
    ghosts: HashMap<Key, u32>,
}

impl S3Fifo {
    /// With room for this number of keys.
    pub fn new(room: usize) -> Self {
        S3Fifo {
            room,
            entries: HashMap::new(),
            small: VecDeque::new(),
            main: VecDeque::new(),
            ghost: VecDeque::new(),
            ghosts: HashMap::new(),
        }
    }

    fn remember(&mut self, key: Key) {
        *self.ghosts.entry(key).or_default() += 1;
        self.ghost.push_back(key);
        if self.ghost.len() > self.room * 9 / 10
            && let Some(oldest) = self.ghost.pop_front()
            && let Some(count) = self.ghosts.get_mut(&oldest)
        {
            *count -= 1;
            if *count == 0 {
                self.ghosts.remove(&oldest);
            }
        }
    }

    fn evict(&mut self) {
        while self.small.len() > self.room / 10 {
            let Some(key) = self.small.pop_front() else { break };
            if self.entries[&key].0 > 1 {
                self.entries.insert(key, (0, true));
                self.main.push_back(key);
                if self.main.len() > self.room - self.room / 10 {
                    return self.evict_main();
                }
            } else {
                self.entries.remove(&key);
                return self.remember(key);
            }
        }
        self.evict_main();
    }

    fn evict_main(&mut self) {
        while let Some(key) = self.main.pop_front() {
            let uses = self.entries[&key].0;
            if uses == 0 {
                self.entries.remove(&key);
                return;
            }
            self.entries.insert(key, (uses - 1, true));
            self.main.push_back(key);
        }
    }
}

impl Policy for S3Fifo {
    fn get_or_put(&mut self, key: Key) -> bool {
        if let Some((uses, _)) = self.entries.get_mut(&key) {
            *uses = (*uses + 1).min(3);
            return true;
        }
        if self.entries.len() >= self.room {
            self.evict();
        }
        let to_main = self.ghosts.contains_key(&key);
        self.entries.insert(key, (0, to_main));
        if to_main { self.main.push_back(key) } else { self.small.push_back(key) }
        false
    }
}

/// W-TinyLFU as moka has it.
pub struct Moka(moka::sync::Cache<Key, ()>);

impl Moka {
    /// With room for this number of keys.
    pub fn new(room: usize) -> Self {
        Moka(moka::sync::Cache::new(room as u64))
    }
}

impl Policy for Moka {
    fn get_or_put(&mut self, key: Key) -> bool {
        let found = self.0.get(&key).is_some();
        if !found {
            self.0.insert(key, ());
        }
        // moka does its bookkeeping in batches; here that is never behind.
        self.0.run_pending_tasks();
        found
    }
}

/// quick_cache, which has a policy of S3-FIFO's kind.
pub struct Quick(quick_cache::unsync::Cache<Key, ()>);

impl Quick {
    /// With room for this number of keys.
    pub fn new(room: usize) -> Self {
        Quick(quick_cache::unsync::Cache::new(room))
    }
}

impl Policy for Quick {
    fn get_or_put(&mut self, key: Key) -> bool {
        let found = self.0.get(&key).is_some();
        if !found {
            self.0.insert(key, ());
        }
        found
    }
}
