//! Kills a child with `kill -9` in a loop. The cache must have a state that it had before, with all that the child was
//! promised.
//!
//! `scripts/tests/kvcache-soak` runs it for half an hour; on its own it runs for some seconds.

mod common;

use common::{STANDSTILL, open};
use refdb_kvcache::{Cache, Durability, Options, PutOptions};
use refdb_testkit::Rng;
use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Read, Write},
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

const KEYS: u64 = 2_000;
const LIMIT_BYTES: u64 = 64 << 20;
/// Fewer writes than these could hardly lose anything.
const LEAST_WRITES: usize = 100;
const FOLDER: &str = "REFDB_SOAK_FOLDER";
const SEED: &str = "REFDB_SOAK_SEED";
const SECONDS: &str = "REFDB_SOAK_SECONDS";

/// The number of the write that gave a key its value, or `None` without a value.
type Value = Option<u64>;

fn bytes_of(write: u64) -> Vec<u8> {
    let mut bytes = write.to_le_bytes().to_vec();
    bytes.resize(8 + (write.wrapping_mul(0x9e37_79b9) >> 7) as usize % 4_000, write as u8);
    bytes
}

/// Writes until it is killed, as a child of the test below, and reports each write before it is made, and each that
/// must survive the kill once it is done.
#[test]
#[ignore = "only the soak test runs it, as a process of its own"]
fn child() {
    let (Ok(folder), Ok(seed)) = (std::env::var(FOLDER), std::env::var(SEED)) else { return };
    let seed: u64 = seed.parse().unwrap();
    // No put is refused, because the test would not notice that it was never written.
    let cache = open(Path::new(&folder), LIMIT_BYTES);
    let (mut rng, mut out) = (Rng::new(seed), std::io::stdout());
    let mut say = |what: &str, key: u64, write: u64, kind: u64| {
        // One system call for each line, so that each line printed before a kill is whole.
        out.write_all(format!("\n@{what} {key} {write} {kind}\n").as_bytes()).unwrap();
        out.flush().unwrap();
    };
    for write in seed << 32.. {
        let key = rng.bits() % KEYS;
        let durability = if rng.one_in(8) { Durability::Written } else { Durability::Buffered };
        let removes = rng.one_in(5);
        say("begin", key, write, u64::from(removes));
        if removes {
            cache.remove_with(&key.to_le_bytes(), durability).unwrap();
        } else {
            let options = PutOptions::new().durability(durability);
            cache.put_with(&key.to_le_bytes(), &bytes_of(write), options).unwrap();
        }
        if durability == Durability::Written {
            say("written", key, write, 0);
        }
    }
}

/// Lets a child write for a while. Returns its writes in order, and how many of them it was promised.
fn run_child(folder: &Path, seed: u64, time: Duration) -> (Vec<(u64, Value)>, usize) {
    let mut command = refdb_testkit::this_program();
    command.args(["--exact", "child", "--ignored", "--nocapture"]).env(FOLDER, folder).env(SEED, seed.to_string());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it can be started");
    let mut stdout = BufReader::new(child.stdout.take().expect("it is a pipe"));
    let mut said = Vec::new();
    // The time begins with the child's first line, because under an emulator the child needs longer to start than it is
    // given to write.
    stdout.read_until(b'@', &mut said).expect("it is a pipe");
    let reader = std::thread::spawn(move || {
        let _ = stdout.read_to_end(&mut said);
        String::from_utf8(said).expect("it says names and numbers")
    });
    std::thread::sleep(time);
    child.kill().expect("it runs until it is killed");
    child.wait().expect("it was killed");
    let text = reader.join().expect("it only reads");
    let (mut writes, mut promised) = (Vec::new(), 0);
    for line in text.lines().filter_map(|line| line.strip_prefix('@')) {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["begin", key, write, removes] => {
                let number = |word: &str| word.parse::<u64>().expect("a line is whole");
                writes.push((number(key), (removes == "0").then(|| number(write))));
            }
            ["written", ..] => promised = writes.len(),
            _ => {}
        }
    }
    (writes, promised)
}

fn found(cache: &Cache, key: u64) -> Value {
    cache.get(&key.to_le_bytes()).map(|found| {
        let write = found.value[..8].try_into().map(u64::from_le_bytes).expect("8 bytes");
        assert_eq!(found.value, bytes_of(write), "a value that nobody wrote");
        write
    })
}

#[test]
fn killed_again_and_again_it_keeps_what_it_promised_and_brings_nothing_back() {
    let seconds = std::env::var(SECONDS).ok().and_then(|text| text.parse().ok()).unwrap_or(12);
    let folder = tempfile::tempdir().unwrap();
    let (start, mut rng) = (Instant::now(), Rng::new(9));
    let mut state: HashMap<u64, Value> = HashMap::new();
    let (mut rounds, mut total, mut opened_ms) = (0u64, 0, 0);
    let is_enough = |total, time| total > LEAST_WRITES || time > STANDSTILL;
    while start.elapsed() < Duration::from_secs(seconds) || rounds < 3 || !is_enough(total, start.elapsed()) {
        rounds += 1;
        let time = Duration::from_millis(300 + rng.bits() % 900);
        let (writes, promised) = run_child(folder.path(), rounds, time);
        total += writes.len();
        let opening = Instant::now();
        let cache = Cache::open(folder.path(), Options::new(LIMIT_BYTES)).unwrap();
        opened_ms = opening.elapsed().as_millis().max(opened_ms);
        // All keys together must show the state after one and the same write, which is no earlier than the last
        // promised one.
        let now: HashMap<u64, Value> = (0..KEYS).map(|key| (key, found(&cache, key))).collect();
        state.extend(writes[..promised].iter().copied());
        let is_different = |state: &HashMap<u64, Value>, key: &u64| now[key] != state.get(key).copied().flatten();
        let mut different: Vec<u64> = (0..KEYS).filter(|key| is_different(&state, key)).collect();
        for (key, value) in &writes[promised..] {
            if different.is_empty() {
                break;
            }
            state.insert(*key, *value);
            different.retain(|other| other != key);
            if is_different(&state, key) {
                different.push(*key);
            }
        }
        assert!(different.is_empty(), "round {rounds}: not a state it had: {different:?}, of {} writes", writes.len());
        state = now;
        assert_eq!(cache.stats().corrupt, 0);
        cache.close().unwrap();
    }
    assert!(total > LEAST_WRITES, "{total} writes in {rounds} rounds");
    println!("{rounds} kills, {total} writes, the slowest opening took {opened_ms} ms");
}
