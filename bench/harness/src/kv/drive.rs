//! Threads that get and put for a while.

use super::{
    histogram::Histogram,
    workload::{Draws, Shapes, Zipf, mix},
};
use refdb_kvcache::{Cache, Put};
use std::{
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

/// What a row asks for.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The row's number, which seeds the threads.
    pub round: u64,
    /// Share of gets, in percent.
    pub gets: u64,
    /// How many threads.
    pub threads: u64,
    /// Operations a second in total; `None` for as many as possible.
    pub rate: Option<f64>,
    /// For how long.
    pub time: Duration,
}

/// What came of a row.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Times of gets.
    pub gets: Histogram,
    /// Times of puts, refused ones too.
    pub puts: Histogram,
    /// Gets that found a value.
    pub hits: u64,
    /// Gets that found another value than was put.
    pub wrong: u64,
    /// Puts that stored nothing, because they were refused or failed.
    pub refused: u64,
    /// How long it took, in seconds.
    pub seconds: f64,
}

impl Outcome {
    /// Adds what another thread did at the same time.
    pub fn merge(&mut self, other: &Outcome) {
        self.gets.merge(&other.gets);
        self.puts.merge(&other.puts);
        self.hits += other.hits;
        self.wrong += other.wrong;
        self.refused += other.refused;
        self.seconds = self.seconds.max(other.seconds);
    }
}

/// One thread's view of a cache.
#[derive(Debug)]
pub struct Client<'a> {
    cache: &'a Cache,
    shapes: &'a Shapes,
    key: Vec<u8>,
    value: Vec<u8>,
    /// What the client did so far.
    pub outcome: Outcome,
}

impl<'a> Client<'a> {
    /// A client of this cache.
    pub fn new(cache: &'a Cache, shapes: &'a Shapes) -> Self {
        Client { cache, shapes, key: Vec::new(), value: Vec::new(), outcome: Outcome::default() }
    }

    /// Gets key `i` and checks the value; returns whether there was one.
    pub fn get(&mut self, i: u64) -> bool {
        self.shapes.key(i, &mut self.key);
        let start = Instant::now();
        self.value.clear();
        let found = self.cache.get_with(&self.key, |value, _| self.value.extend_from_slice(value)).is_some();
        self.outcome.gets.add(start.elapsed().as_nanos() as u64);
        if found {
            self.outcome.hits += 1;
            let right = self.value.len() == self.shapes.value_len(i) && self.value[..8] == i.to_le_bytes();
            self.outcome.wrong += u64::from(!right);
        }
        found
    }

    /// Puts value `i`.
    pub fn put(&mut self, i: u64) {
        self.shapes.key(i, &mut self.key);
        self.shapes.value(i, &mut self.value);
        let start = Instant::now();
        let put = self.cache.put(&self.key, &self.value);
        self.outcome.puts.add(start.elapsed().as_nanos() as u64);
        self.outcome.refused += u64::from(!matches!(put, Ok(Put::Stored)));
    }
}

/// Runs `work` on this many threads and adds up what they did.
pub fn on_threads(cache: &Cache, shapes: &Shapes, threads: u64, work: impl Fn(u64, &mut Client<'_>) + Sync) -> Outcome {
    let start = Instant::now();
    let mut total = Outcome::default();
    thread::scope(|scope| {
        let run = |thread| {
            let work = &work;
            scope.spawn(move || {
                let mut client = Client::new(cache, shapes);
                work(thread, &mut client);
                client.outcome
            })
        };
        let running: Vec<_> = (0..threads).map(run).collect();
        running.into_iter().for_each(|thread| total.merge(&thread.join().expect("a client does not panic")));
    });
    total.seconds = start.elapsed().as_secs_f64();
    total
}

/// A mix of gets and puts of zipfian keys.
pub fn mixed(cache: &Cache, shapes: &Shapes, zipf: &Zipf, ask: &Ask) -> Outcome {
    let start = Instant::now();
    on_threads(cache, shapes, ask.threads, |thread, client| {
        let mut draws = Draws::new(mix(1000 * ask.round + thread));
        for k in 0u64.. {
            if let Some(rate) = ask.rate {
                let due = start + Duration::from_secs_f64(k as f64 * ask.threads as f64 / rate);
                thread::sleep(due.saturating_duration_since(Instant::now()));
            }
            if start.elapsed() >= ask.time {
                break;
            }
            let is_get = draws.draw() % 100 < ask.gets;
            let key = zipf.key(&mut draws);
            if is_get {
                client.get(key);
            } else {
                client.put(key);
            }
        }
    })
}

/// Puts keys `from..to` in order, each thread the next one, and calls `after` for each.
pub fn insert(
    cache: &Cache,
    shapes: &Shapes,
    from: u64,
    to: u64,
    threads: u64,
    after: impl Fn(u64, &mut Client<'_>) + Sync,
) -> Outcome {
    let next = AtomicU64::new(from);
    on_threads(cache, shapes, threads, |_, client| {
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            if i >= to {
                break;
            }
            client.put(i);
            after(i, client);
        }
    })
}
