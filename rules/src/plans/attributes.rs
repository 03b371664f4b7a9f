//! The attribute `plan` of a request.

use std::borrow::Cow;

use super::UserPlan;
use crate::attributes::Attributes;

/// The attributes of a request, and the plan of its user as the attribute `plan`. By [`Plans::attributes`].
///
/// A `plan` that the request itself has is not used: a client cannot choose its plan.
///
/// [`Plans::attributes`]: super::Plans::attributes
#[derive(Clone, Debug)]
pub struct WithPlan<A> {
    request: A,
    plan: UserPlan,
}

impl<A> WithPlan<A> {
    pub(super) fn new(request: A, plan: UserPlan) -> Self {
        Self { request, plan }
    }

    /// Returns the plan, and where it comes from.
    pub fn plan(&self) -> &UserPlan {
        &self.plan
    }
}

impl<A: Attributes> Attributes for WithPlan<A> {
    fn get(&self, name: &str) -> Option<Cow<'_, str>> {
        if name == "plan" {
            return Some(Cow::Borrowed(self.plan.name()));
        }
        self.request.get(name)
    }
}
