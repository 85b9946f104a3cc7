//! Shared pointers under shuttle's scheduler, with a scheduling point before each load, store and swap.

use arc_swap::{ArcSwap, ArcSwapOption, Guard};
use shuttle::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

fn moment() {
    AtomicBool::new(false).load(Ordering::SeqCst);
}

pub(crate) struct Shared<T>(ArcSwap<T>);

impl<T> Shared<T> {
    pub(crate) fn new(value: Arc<T>) -> Self {
        Shared(ArcSwap::new(value))
    }

    pub(crate) fn load(&self) -> Guard<Arc<T>> {
        moment();
        self.0.load()
    }

    pub(crate) fn load_full(&self) -> Arc<T> {
        moment();
        self.0.load_full()
    }

    pub(crate) fn store(&self, value: Arc<T>) {
        moment();
        self.0.store(value);
    }

    pub(crate) fn swap(&self, value: Arc<T>) -> Arc<T> {
        moment();
        self.0.swap(value)
    }
}

pub(crate) struct SharedOption<T>(ArcSwapOption<T>);

impl<T> SharedOption<T> {
    pub(crate) fn empty() -> Self {
        SharedOption(ArcSwapOption::empty())
    }

    pub(crate) fn load(&self) -> Guard<Option<Arc<T>>> {
        moment();
        self.0.load()
    }

    pub(crate) fn load_full(&self) -> Option<Arc<T>> {
        moment();
        self.0.load_full()
    }

    pub(crate) fn store(&self, value: Option<Arc<T>>) {
        moment();
        self.0.store(value);
    }
}
