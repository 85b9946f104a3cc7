//! Explores every order of events in a small model of a protocol.

use std::{collections::HashSet, fmt::Debug, hash::Hash};

/// A model of a protocol that is small enough to explore all of its states.
pub trait Explorable: Clone + Eq + Hash {
    /// Something that may happen next.
    type Event: Copy + Debug;
    /// A deliberate fault in the protocol.
    type Fault: Copy;
    /// Statistics of the events, which show that the exploration reached the states that matter.
    type Seen: Default;

    /// Returns all events that may happen next.
    fn events(&self, fault: Self::Fault) -> Vec<Self::Event>;

    /// Applies an event.
    ///
    /// # Errors
    ///
    /// The promise that the event breaks.
    fn happen(&mut self, event: Self::Event, fault: Self::Fault, seen: &mut Self::Seen) -> Result<(), String>;

    /// Checks a state, given all the events that may happen next.
    ///
    /// # Errors
    ///
    /// The promise that the state breaks.
    fn look(&self, _events: &[Self::Event]) -> Result<(), String> {
        Ok(())
    }
}

/// Explores every order of events. Returns the number of states and the statistics.
///
/// # Errors
///
/// The events that led to a broken promise, followed by that promise.
pub fn every_order<W: Explorable>(world: &W, fault: W::Fault) -> Result<(usize, W::Seen), Vec<String>> {
    let mut search = Search { fault, states: HashSet::new(), path: Vec::new(), seen: W::Seen::default() };
    match search.visit(world) {
        Ok(()) => Ok((search.states.len(), search.seen)),
        Err(broken) => Err(search.path.iter().map(|event| format!("{event:?}")).chain([broken]).collect()),
    }
}

struct Search<W: Explorable> {
    fault: W::Fault,
    states: HashSet<W>,
    /// The events that led to the current state.
    path: Vec<W::Event>,
    seen: W::Seen,
}

impl<W: Explorable> Search<W> {
    fn visit(&mut self, world: &W) -> Result<(), String> {
        if !self.states.insert(world.clone()) {
            return Ok(());
        }
        let events = world.events(self.fault);
        world.look(&events)?;
        for event in events {
            let mut next = world.clone();
            self.path.push(event);
            next.happen(event, self.fault, &mut self.seen)?;
            self.visit(&next)?;
            self.path.pop();
        }
        Ok(())
    }
}
