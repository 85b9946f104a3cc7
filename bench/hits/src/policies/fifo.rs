//! S3-FIFO, which consists of queues.

use super::Policy;
use crate::traces::Key;
use std::collections::{HashMap, VecDeque};

/// Keys in the order in which they came, and the sum of their costs.
#[derive(Default)]
struct Queue {
    keys: VecDeque<(Key, u32)>,
    cost: u64,
}

impl Queue {
    fn push(&mut self, key: Key, cost: u32) {
        self.keys.push_back((key, cost));
        self.cost += u64::from(cost);
    }

    fn pop(&mut self) -> Option<(Key, u32)> {
        let (key, cost) = self.keys.pop_front()?;
        self.cost -= u64::from(cost);
        Some((key, cost))
    }
}

/// Yang et al., "FIFO queues are all you need for cache eviction" (SOSP 2023). A tenth is for new entries, a main queue
/// lets used entries go round, and lately dropped keys are remembered.
pub struct S3Fifo {
    room: u64,
    /// A counter for each entry, which a use raises, up to 3.
    uses: HashMap<Key, u8>,
    small: Queue,
    main: Queue,
    ghost: Queue,
    ghosts: HashMap<Key, u32>,
}

impl S3Fifo {
    /// With this much room.
    pub fn new(room: u64) -> Self {
        let (small, main, ghost) = Default::default();
        S3Fifo { room, uses: HashMap::new(), small, main, ghost, ghosts: HashMap::new() }
    }

    fn remember(&mut self, key: Key, cost: u32) {
        *self.ghosts.entry(key).or_default() += 1;
        self.ghost.push(key, cost);
        while self.ghost.cost > self.room * 9 / 10
            && let Some((oldest, _)) = self.ghost.pop()
            && let Some(count) = self.ghosts.get_mut(&oldest)
        {
            *count -= 1;
            if *count == 0 {
                self.ghosts.remove(&oldest);
            }
        }
    }

    fn evict(&mut self) {
        // Entries of different costs can leave the main queue empty while new ones take less than a tenth.
        while self.small.cost > self.room / 10 || self.main.keys.is_empty() {
            let Some((key, cost)) = self.small.pop() else { break };
            if self.uses[&key] > 1 {
                self.uses.insert(key, 0);
                self.main.push(key, cost);
                if self.main.cost > self.room - self.room / 10 {
                    return self.evict_main();
                }
            } else {
                self.uses.remove(&key);
                return self.remember(key, cost);
            }
        }
        self.evict_main();
    }

    fn evict_main(&mut self) {
        while let Some((key, cost)) = self.main.pop() {
            let Some(left) = self.uses[&key].checked_sub(1) else {
                self.uses.remove(&key);
                return;
            };
            self.uses.insert(key, left);
            self.main.push(key, cost);
        }
    }

    pub(super) fn used(&self) -> u64 {
        self.small.cost + self.main.cost
    }
}

impl Policy for S3Fifo {
    fn get_or_put(&mut self, key: Key, cost: u32) -> bool {
        if let Some(uses) = self.uses.get_mut(&key) {
            *uses = (*uses + 1).min(3);
            return true;
        }
        if u64::from(cost) > self.room {
            return false;
        }
        while self.used() + u64::from(cost) > self.room {
            self.evict();
        }
        self.uses.insert(key, 0);
        if self.ghosts.contains_key(&key) {
            self.main.push(key, cost)
        } else {
            self.small.push(key, cost)
        }
        false
    }
}
