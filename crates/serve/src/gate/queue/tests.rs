//! Every order in which a few requests enter the queue, leave it and end, and the limits change, beside a model that
//! lets the first waiting request run that no limit holds back.
//!
//! The queue changes only under its one lock, so that these orders are all that threads can bring about.

use super::*;
use std::{
    pin::Pin,
    task::{Context, Poll, Waker},
};

/// Client and repository of each request.
const REQUESTS: [(&str, &str); 4] = [("a", "r"), ("a", "s"), ("b", "r"), ("c", "s")];

/// The limits on all requests, on those of each repository and on those of each client, between which orders change.
const LIMITS: [[usize; 3]; 3] = [[2, 1, 2], [3, 2, 1], [1, 1, 1]];

/// Maximum number of steps in an order.
const STEPS: usize = 6;

type Waits = Pin<Box<dyn Future<Output = Option<Place>>>>;

/// What became of a request.
enum Request {
    New,
    /// It waits, or has a place that it has not taken yet.
    Asked(Waits),
    Runs {
        _place: Place,
    },
    /// It gave up or has ended.
    Gone,
}

/// Which requests run and wait, by their numbers.
#[derive(Default)]
struct Model {
    limits: usize,
    running: Vec<usize>,
    waiting: Vec<usize>,
}

impl Model {
    fn count(&self, is_counted: impl Fn((&str, &str)) -> bool) -> usize {
        self.running.iter().filter(|request| is_counted(REQUESTS[**request])).count()
    }

    fn allows(&self, request: usize) -> bool {
        let [all, per_repository, per_client] = LIMITS[self.limits];
        let (client, repository) = REQUESTS[request];
        self.running.len() < all
            && self.count(|(_, other)| other == repository) < per_repository
            && self.count(|(other, _)| other == client) < per_client
    }

    fn settle(&mut self) {
        while let Some(at) = self.waiting.iter().position(|request| self.allows(*request)) {
            self.running.push(self.waiting.remove(at));
        }
    }
}

fn most(limits: usize) -> Most {
    let [all, per_repository, per_client] = LIMITS[limits];
    Most { all, per_repository, per_client }
}

fn ask(queue: &Queue, request: usize) -> Request {
    let (queue, (client, repository)) = (queue.clone(), REQUESTS[request]);
    let waits: Waits = Box::pin(async move { queue.place(client, repository).await });
    take(waits)
}

/// Takes the place of a request if it has one.
fn take(mut waits: Waits) -> Request {
    match waits.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(place) => Request::Runs { _place: place.expect("the queue is there") },
        Poll::Pending => Request::Asked(waits),
    }
}

/// Makes these steps: a request asks or, the second time, ends or gives up; or, beyond the requests, the limits change.
/// A request takes a place that is free when it asks. It takes a place that it gets later only with `takes_places`, and
/// then at once. Returns whether all steps are possible.
fn run(steps: &[usize], takes_places: bool) -> bool {
    let mut queue = Queue::new(most(0));
    let mut requests: Vec<Request> = REQUESTS.iter().map(|_| Request::New).collect();
    let mut model = Model::default();
    for step in steps.iter().copied() {
        match requests.get_mut(step) {
            Some(Request::Gone) => return false,
            Some(request @ Request::New) => {
                *request = ask(&queue, step);
                model.waiting.push(step);
            }
            Some(request) => {
                *request = Request::Gone;
                model.waiting.retain(|waiting| *waiting != step);
                model.running.retain(|running| *running != step);
            }
            None => {
                model.limits = step - REQUESTS.len();
                queue = queue.resized(most(model.limits));
            }
        }
        model.settle();
        for request in requests.iter_mut().filter(|_| takes_places) {
            if let Request::Asked(_) = request
                && let Request::Asked(waits) = std::mem::replace(request, Request::Gone)
            {
                *request = take(waits);
            }
        }
        check(&queue, &model, steps);
        let taken = (0..).zip(&requests).filter(|(_, request)| matches!(request, Request::Runs { .. }));
        let taken: Vec<usize> = taken.map(|(at, _)| at).collect();
        assert!(!takes_places || taken.iter().all(|at| model.running.contains(at)), "{steps:?}: {taken:?} run");
    }
    drop(requests);
    check(&queue, &Model::default(), steps);
    true
}

/// Compares the counts of the queue with those of the model.
fn check(queue: &Queue, model: &Model, steps: &[usize]) {
    let state = queue.locked();
    assert_eq!(state.running, model.running.len(), "{steps:?}");
    for (client, repository) in REQUESTS {
        let known = |counts: &HashMap<Arc<str>, usize>, name| counts.get(name).copied().unwrap_or(0);
        assert_eq!(known(&state.clients, client), model.count(|(other, _)| other == client), "{steps:?}: {client}");
        let there = model.count(|(_, other)| other == repository);
        assert_eq!(known(&state.repositories, repository), there, "{steps:?}: {repository}");
    }
}

#[test]
fn in_every_order_the_first_request_runs_that_no_limit_holds_back() {
    let (mut steps, mut orders) = (vec![0], 0);
    // Counts through all sequences of steps; those that begin with an impossible one are left out.
    while let Some(last) = steps.last_mut() {
        if *last == REQUESTS.len() + LIMITS.len() {
            steps.pop();
            if let Some(before) = steps.last_mut() {
                *before += 1;
            }
            continue;
        }
        let is_possible = run(&steps, false) && run(&steps, true);
        orders += usize::from(is_possible);
        if is_possible && steps.len() < STEPS {
            steps.push(0);
        } else if let Some(last) = steps.last_mut() {
            *last += 1;
        }
    }
    assert!(orders > 50_000, "{orders} orders");
}
