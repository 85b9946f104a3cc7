use super::*;

const SHORT: Duration = Duration::from_millis(200);

fn queue(target: &Path) -> Queue {
    Queue::of(&Fs::real(), target, "tests").expect("a local folder has a queue")
}

fn first(queue: &Queue) -> QueueHead {
    match queue.enter(ALONE) {
        Entered::First(head) => head,
        _ => panic!("nobody else waits"),
    }
}

fn behind(queue: &Queue, kind: u8) -> Channel {
    match queue.enter(kind) {
        Entered::Behind(channel) => channel,
        _ => panic!("somebody is first"),
    }
}

fn leads(channel: &Channel) -> QueueHead {
    match wait_behind(channel, SHORT) {
        Told::Lead(head) => head,
        _ => panic!("the next one becomes the first"),
    }
}

#[test]
fn those_that_wait_become_the_first_in_the_order_in_which_they_came() {
    let dir = tempfile::tempdir().unwrap();
    let queue = queue(&dir.path().join("x"));
    let mut head = first(&queue);
    head.relay = Relay { left: 7, strangers_until: 8, free_until: 0 };
    let relay = head.relay;
    let waiting: Vec<Channel> = (0..600).map(|_| behind(&queue, ALONE)).collect();
    for channel in &waiting {
        assert!(matches!(wait_behind(channel, Duration::ZERO), Told::Nothing));
        drop(head);
        head = leads(channel);
        assert_eq!(head.relay, relay, "each tells the next one");
    }
    drop(head);
    drop(first(&queue));
}

#[test]
fn one_that_went_away_is_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    let queue = queue(&dir.path().join("x"));
    let head = first(&queue);
    let (gone, stays) = (behind(&queue, ALONE), behind(&queue, ALONE));
    drop(gone);
    drop(head);
    drop(leads(&stays));
}

#[test]
fn the_death_of_the_first_is_noticed_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let queue = queue(&dir.path().join("x"));
    let mut head = first(&queue);
    let waiting = [behind(&queue, ALONE), behind(&queue, JOINS)];
    // The kernel closes the sockets of a process that is killed. Some writers were accepted before, and one was not.
    head.accept_all();
    let late = behind(&queue, ALONE);
    let QueueHead { listener, arrived, .. } = &mut head;
    arrived.clear();
    let null = std::fs::File::open("/dev/null").unwrap();
    drop(std::mem::replace(listener, null.into()));
    for channel in waiting.iter().chain([&late]) {
        assert!(matches!(wait_behind(channel, SHORT), Told::Gone));
    }
    drop(first(&queue));
}

#[test]
fn only_those_that_join_get_turns_and_the_others_keep_their_places() {
    let dir = tempfile::tempdir().unwrap();
    let queue = queue(&dir.path().join("x"));
    let mut head = first(&queue);
    let (alone, joining) = (behind(&queue, ALONE), behind(&queue, JOINS));
    let member = head.next_joining().expect("one of the two joins");
    assert!(head.next_joining().is_none());
    assert!(member.give_turn(b"state"));
    assert!(matches!(wait_behind(&joining, SHORT), Told::Turn(content) if content == b"state"));
    assert!(joining.send_bytes(b"answer"));
    assert!(matches!(member.receive(SHORT), Received::Message(answer, _) if answer == b"answer"));
    drop(head);
    drop(leads(&alone));
    drop(member);
    assert!(matches!(joining.receive(SHORT), Received::Ended));
}

/// Previously, nobody was accepted any more as long as a writer waited that wants the lock for itself.
#[test]
fn those_that_come_later_join_though_somebody_waits_for_the_lock() {
    let dir = tempfile::tempdir().unwrap();
    let queue = queue(&dir.path().join("x"));
    let mut head = first(&queue);
    let alone = behind(&queue, ALONE);
    assert!(head.next_joining().is_none());
    let _late = behind(&queue, JOINS);
    head.next_joining().expect("the late one joins");
    drop(head);
    drop(leads(&alone));
}

#[test]
fn messages_have_a_longest_size() {
    let dir = tempfile::tempdir().unwrap();
    let queue = queue(&dir.path().join("x"));
    let mut head = first(&queue);
    let joining = behind(&queue, JOINS);
    let member = head.next_joining().unwrap();
    assert!(!member.give_turn(&vec![0; channel::MESSAGE_BYTES_MAX]));
    assert!(member.give_turn(&vec![1; channel::MESSAGE_BYTES_MAX - 1]));
    let told = wait_behind(&joining, SHORT);
    assert!(matches!(told, Told::Turn(content) if content == vec![1; channel::MESSAGE_BYTES_MAX - 1]));
}

#[test]
fn the_lock_is_left_to_strangers_even_if_everybody_has_come() {
    let dir = tempfile::tempdir().unwrap();
    let queue = queue(&dir.path().join("x"));
    let mut head = first(&queue);
    // Much longer than any machine stands still.
    let long = Duration::from_secs(120);
    let begun = Instant::now();
    head.gather(0, long);
    assert!(begun.elapsed() < long / 2, "nobody is missing");
    let free_until = monotonic_nanos() + 8_000_000;
    head.relay.free_until = free_until;
    head.gather(0, Duration::ZERO);
    assert!(monotonic_nanos() >= free_until);
    head.relay.free_until = monotonic_nanos() + 120_000_000_000;
    let begun = Instant::now();
    head.gather(0, Duration::ZERO);
    assert!(begun.elapsed() < long / 2, "a message of nonsense stops nobody");
}

/// Waits for writers in a process that can accept none, as a child of the test below.
#[test]
#[ignore = "only the test below runs it, as a process whose file descriptors are used up"]
fn child_without_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let dir = tempfile::tempdir().unwrap();
    let queue = queue(&dir.path().join("x"));
    let mut head = first(&queue);
    let _waiting = behind(&queue, ALONE);
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(1), ..limit }).unwrap();
    let busy = || clock_gettime(ClockId::ThreadCPUTime);
    let (before, start) = (busy(), Instant::now());
    head.gather(1, 5 * SHORT);
    let (after, passed) = (busy(), start.elapsed());
    setrlimit(Resource::Nofile, limit).unwrap();
    let nanos = (after.tv_sec - before.tv_sec) * 1_000_000_000 + after.tv_nsec - before.tv_nsec;
    assert!(passed >= 5 * SHORT, "it waits for a descriptor");
    assert!(nanos < 100_000_000, "{nanos} ns of work in {passed:?}");
}

/// Previously, the head of the queue asked for the next writer again and again.
#[test]
fn without_descriptors_writers_are_waited_for_at_rest() {
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    let name = "queue::tests::child_without_descriptors";
    let output = command.args(["--exact", name, "--ignored", "--test-threads", "1"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
fn a_network_file_system_has_no_queue_and_other_terms_have_another() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("x");
    assert!(Queue::of(&Fs::real().asking_server(true), &target, "").is_none());
    let _one = first(&queue(&target));
    let _other = first(&Queue::of(&Fs::real(), &target, "other terms").unwrap());
    let _third = first(&queue(&dir.path().join("y")));
}

#[test]
fn what_heads_tell_each_other_is_decoded_as_it_was_encoded() {
    let relay = Relay { left: 1, strangers_until: u64::MAX, free_until: 3 };
    assert_eq!(Relay::decode(&relay.encode()), Some(relay));
    for len in (0..60).filter(|len| *len != Relay::BYTES) {
        assert_eq!(Relay::decode(&vec![0; len]), None);
    }
}
