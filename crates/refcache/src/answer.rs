//! Answers, and on what they rest.

/// An answer from an open repository.
pub(crate) enum Answer<T> {
    /// Right whatever has become of the folder since.
    Proved(T),
    /// Right only if the folder still holds the repository that was opened.
    IfSame(T),
}

impl<T> Answer<T> {
    /// An answer that rests on the repository if `is_doubtful`.
    #[inline]
    pub(crate) fn new(value: T, is_doubtful: bool) -> Self {
        if is_doubtful { Answer::IfSame(value) } else { Answer::Proved(value) }
    }

    /// Another answer that rests on the same.
    #[inline]
    pub(crate) fn map<U>(self, then: impl FnOnce(T) -> U) -> Answer<U> {
        match self {
            Answer::Proved(value) => Answer::Proved(then(value)),
            Answer::IfSame(value) => Answer::IfSame(then(value)),
        }
    }

    /// Another answer that rests on the same, if there is one.
    #[inline]
    pub(crate) fn try_map<U, E>(self, then: impl FnOnce(T) -> Result<U, E>) -> Result<Answer<U>, E> {
        Ok(match self {
            Answer::Proved(value) => Answer::Proved(then(value)?),
            Answer::IfSame(value) => Answer::IfSame(then(value)?),
        })
    }

    /// The answer for a larger one, which is doubtful as soon as a part of it is.
    #[inline]
    pub(crate) fn part_of(self, is_doubtful: &mut bool) -> T {
        match self {
            Answer::Proved(value) => value,
            Answer::IfSame(value) => {
                *is_doubtful = true;
                value
            }
        }
    }
}
