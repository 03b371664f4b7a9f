//! Subscription plans: each user has one, and can change it at run time.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use tollgate_core::{Limit, LimitBuilder, LimitError};

/// Users and their plans.
///
/// All plans are one limit with different parameters. A user who changes plan keeps the state: consumed quota stays
/// consumed, and at most the new plan's capacity remains.
///
/// ```
/// use tollgate::{Limit, Limiter};
/// use tollgate::rules::Plans;
/// use tollgate::memory::MemoryStore;
///
/// let plans = Plans::builder("api")
///     .plan("free", Limit::per_second(50))
///     .plan("standard", Limit::per_second(500))
///     .plan("pro", Limit::per_second(1000))
///     .build()?;
/// plans.register("alice", "free")?;
///
/// let limiter = Limiter::new(MemoryStore::new());
/// assert!(limiter.check_now(&*plans.limit_of("alice")?, "alice").is_allowed());
///
/// plans.change("alice", "pro")?;
/// assert_eq!(plans.limit_of("alice")?.count(), 1000);
/// assert!(plans.limit_of("bob").is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Plans {
    by_name: HashMap<String, Plan>,
    default: Option<Plan>,
    users: RwLock<HashMap<String, Plan>>,
}

#[derive(Clone, Debug)]
struct Plan {
    name: Arc<str>,
    limit: Arc<Limit>,
}

/// Builds [`Plans`]; [`build`](Self::build) validates them.
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct PlansBuilder {
    limit: String,
    plans: Vec<(String, LimitBuilder)>,
    default: Option<String>,
}

/// An invalid plan, or an operation on a user that is not possible.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlanError {
    /// The user already has a plan.
    AlreadyRegistered,
    /// The user has no plan, and there is no default plan.
    UnknownUser,
    /// No plan has this name.
    UnknownPlan {
        /// The unknown name.
        plan: String,
        /// The existing names.
        known: Vec<String>,
    },
    /// Two plans have this name.
    DuplicatePlan(String),
    /// The plans do not share one limit: these two differ in their algorithm, or only one of them has a block time. A
    /// user who changes from one to the other would start with a fresh state.
    MixedPlans(String, String),
    /// The parameters of a plan are invalid.
    Limit {
        /// The plan.
        plan: String,
        /// The reason.
        error: LimitError,
    },
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AlreadyRegistered => {
                f.write_str("this user already has a plan; use `change` to assign another one")
            }
            Self::UnknownUser => f.write_str("this user has no plan; use `register`, or set a default plan"),
            Self::UnknownPlan { plan, known } => {
                write!(f, "unknown plan `{plan}`; known plans: {}", known.join(", "))
            }
            Self::DuplicatePlan(plan) => {
                write!(f, "two plans are named `{plan}`; rename one of them")
            }
            Self::MixedPlans(one, other) => write!(
                f,
                "plans `{one}` and `{other}` cannot share state; use the same algorithm for both, and a block time for \
                 both or neither"
            ),
            Self::Limit { plan, error } => write!(f, "plan `{plan}`: {error}"),
        }
    }
}

impl std::error::Error for PlanError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Limit { error, .. } => Some(error),
            Self::AlreadyRegistered
            | Self::UnknownUser
            | Self::UnknownPlan { .. }
            | Self::DuplicatePlan(_)
            | Self::MixedPlans(..) => None,
        }
    }
}

impl PlansBuilder {
    /// Adds a plan.
    pub fn plan(mut self, name: &str, limit: LimitBuilder) -> Self {
        self.plans.push((name.to_owned(), limit));
        self
    }

    /// Sets the plan of users that are not registered. Default: none, and such users are an error.
    pub fn default_plan(mut self, name: &str) -> Self {
        self.default = Some(name.to_owned());
        self
    }

    /// Validates and builds the plans.
    pub fn build(self) -> Result<Plans, PlanError> {
        let mut plans: HashMap<String, Plan> = HashMap::new();
        for (plan, limit) in self.plans {
            let limit =
                limit.build(&self.limit).map_err(|error| PlanError::Limit { plan: plan.clone(), error })?;
            if let Some(other) = plans.values().find(|other| other.limit.id() != limit.id()) {
                return Err(PlanError::MixedPlans(other.name.to_string(), plan));
            }
            let (name, limit) = (Arc::from(plan.as_str()), Arc::new(limit));
            if plans.insert(plan.clone(), Plan { name, limit }).is_some() {
                return Err(PlanError::DuplicatePlan(plan));
            }
        }
        let mut built = Plans { by_name: plans, default: None, users: RwLock::default() };
        if let Some(name) = self.default {
            built.default = Some(built.find_plan(&name)?);
        }
        Ok(built)
    }
}

impl Plans {
    /// Starts plans of the limit named `limit`.
    pub fn builder(limit: &str) -> PlansBuilder {
        PlansBuilder { limit: limit.to_owned(), plans: Vec::new(), default: None }
    }

    /// Assigns a plan to a new user.
    pub fn register(&self, user: &str, plan: &str) -> Result<(), PlanError> {
        let plan = self.find_plan(plan)?;
        let mut users = self.users.write().unwrap_or_else(PoisonError::into_inner);
        if users.contains_key(user) {
            return Err(PlanError::AlreadyRegistered);
        }
        users.insert(user.to_owned(), plan);
        Ok(())
    }

    /// Assigns another plan to a registered user.
    pub fn change(&self, user: &str, plan: &str) -> Result<(), PlanError> {
        let plan = self.find_plan(plan)?;
        let mut users = self.users.write().unwrap_or_else(PoisonError::into_inner);
        *users.get_mut(user).ok_or(PlanError::UnknownUser)? = plan;
        Ok(())
    }

    /// Removes a user.
    pub fn remove(&self, user: &str) -> Result<(), PlanError> {
        let mut users = self.users.write().unwrap_or_else(PoisonError::into_inner);
        users.remove(user).map(drop).ok_or(PlanError::UnknownUser)
    }

    /// Returns the limit of a user's plan, or of the default plan.
    pub fn limit_of(&self, user: &str) -> Result<Arc<Limit>, PlanError> {
        self.plan_or_default(user).map(|plan| plan.limit)
    }

    /// Returns the name of a user's plan, or of the default plan.
    pub fn plan_of(&self, user: &str) -> Result<Arc<str>, PlanError> {
        self.plan_or_default(user).map(|plan| plan.name)
    }

    fn plan_or_default(&self, user: &str) -> Result<Plan, PlanError> {
        let users = self.users.read().unwrap_or_else(PoisonError::into_inner);
        users.get(user).or(self.default.as_ref()).cloned().ok_or(PlanError::UnknownUser)
    }

    fn find_plan(&self, name: &str) -> Result<Plan, PlanError> {
        self.by_name.get(name).cloned().ok_or_else(|| {
            let mut known: Vec<_> = self.by_name.keys().cloned().collect();
            known.sort_unstable();
            PlanError::UnknownPlan { plan: name.to_owned(), known }
        })
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::{Limiter, ManualClock};
    use tollgate_store_memory::MemoryStore;

    use super::*;

    fn three_plans() -> PlansBuilder {
        Plans::builder("api")
            .plan("free", Limit::per_second(50))
            .plan("standard", Limit::per_second(500))
            .plan("pro", Limit::per_second(1000))
    }

    fn count_allowed(plans: &Plans, limiter: &Limiter<MemoryStore, ManualClock>, user: &str) -> usize {
        let limit = plans.limit_of(user).expect("a plan");
        (0..2000).filter(|_| limiter.check_now(&limit, user).is_allowed()).count()
    }

    #[test]
    fn every_user_gets_the_limit_of_their_plan() {
        let plans = three_plans().build().expect("valid");
        let limiter = Limiter::with_clock(MemoryStore::new(), ManualClock::default());
        for (user, plan, capacity) in [("f", "free", 50), ("s", "standard", 500), ("p", "pro", 1000)] {
            plans.register(user, plan).expect("new");
            assert_eq!(count_allowed(&plans, &limiter, user), capacity);
        }
    }

    #[test]
    fn a_change_of_plan_keeps_consumed_quota() {
        let plans = three_plans().build().expect("valid");
        let clock = ManualClock::default();
        let limiter = Limiter::with_clock(MemoryStore::new(), clock.clone());
        plans.register("alice", "free").expect("new");
        assert_eq!(count_allowed(&plans, &limiter, "alice"), 50);
        plans.change("alice", "pro").expect("registered");
        assert_eq!(count_allowed(&plans, &limiter, "alice"), 0);
        clock.advance(std::time::Duration::from_millis(100));
        assert_eq!(count_allowed(&plans, &limiter, "alice"), 100, "refilled at the new rate");
    }

    #[test]
    fn errors_name_their_cause() {
        let plans = three_plans().build().expect("valid");
        plans.register("alice", "free").expect("new");
        assert_eq!(plans.register("alice", "pro"), Err(PlanError::AlreadyRegistered));
        assert_eq!(plans.limit_of("bob"), Err(PlanError::UnknownUser));
        assert_eq!(plans.change("bob", "pro"), Err(PlanError::UnknownUser));
        assert_eq!(plans.remove("bob"), Err(PlanError::UnknownUser));
        let unknown = plans.register("bob", "gold").expect_err("no such plan");
        assert_eq!(unknown.to_string(), "unknown plan `gold`; known plans: free, pro, standard");
        assert_eq!(&*plans.plan_of("alice").expect("registered"), "free");
        plans.remove("alice").expect("registered");
        assert_eq!(plans.limit_of("alice"), Err(PlanError::UnknownUser));
        plans.register("alice", "pro").expect("new again");
    }

    #[test]
    fn unregistered_users_get_the_default_plan() {
        let plans = three_plans().default_plan("free").build().expect("valid");
        assert_eq!(plans.limit_of("anyone").expect("the default").count(), 50);
        assert!(matches!(three_plans().default_plan("gold").build(), Err(PlanError::UnknownPlan { .. })));
    }

    #[test]
    fn invalid_plans_are_rejected() {
        let zero = three_plans().plan("none", Limit::per_second(0)).build().expect_err("a zero limit");
        assert_eq!(zero.to_string(), "plan `none`: limit `api`: count is 0; use at least 1");
        let mixed = three_plans()
            .plan("daily", Limit::per_day(9).fixed_window())
            .build()
            .expect_err("another algorithm");
        assert!(matches!(mixed, PlanError::MixedPlans(_, plan) if plan == "daily"));
        let twice = three_plans().plan("free", Limit::per_second(1)).build();
        assert_eq!(twice.expect_err("two plans"), PlanError::DuplicatePlan("free".to_owned()));
    }
}
