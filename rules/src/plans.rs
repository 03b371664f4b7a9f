//! Plans: every user has one, and it can change while it is in use.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use tollgate_core::{Limit, LimitBuilder, LimitError};

/// Users and their plans.
///
/// All plans are one limit with different numbers, so a user who changes plan goes on where they were: what
/// they have used is not given back, and they never have more than the new plan's capacity.
///
/// ```
/// use tollgate_core::{Limit, Limiter};
/// use tollgate_rules::Plans;
/// use tollgate_store_memory::MemoryStore;
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

/// Collects plans; [`build`](Self::build) checks them.
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct PlansBuilder {
    limit: String,
    plans: Vec<(String, LimitBuilder)>,
    default: Option<String>,
}

/// What was wrong with a plan or a user, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlanError {
    /// The user has a plan already.
    AlreadyRegistered,
    /// The user has no plan, and there is no default one.
    UnknownUser,
    /// No plan has this name.
    UnknownPlan {
        /// The name that was asked for.
        plan: String,
        /// The names there are.
        known: Vec<String>,
    },
    /// Two plans have this name.
    DuplicatePlan(String),
    /// The plans are not one limit with different numbers: these two differ in their algorithm, or one of them has a
    /// block time. Changing from one to the other would give everything back.
    MixedPlans(String, String),
    /// A plan's numbers make no limit.
    Limit {
        /// The plan.
        plan: String,
        /// What is wrong with it.
        error: LimitError,
    },
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AlreadyRegistered => {
                f.write_str("this user has a plan already; use `change` to give them another")
            }
            Self::UnknownUser => f.write_str("this user has no plan; `register` them, or set a default plan"),
            Self::UnknownPlan { plan, known } => {
                write!(f, "there is no plan `{plan}`; there are: {}", known.join(", "))
            }
            Self::DuplicatePlan(plan) => {
                write!(f, "there are two plans `{plan}`; give one of them another name")
            }
            Self::MixedPlans(one, other) => write!(
                f,
                "plans `{one}` and `{other}` count in different ways; use the same algorithm for both, and a block \
                 time for both or neither"
            ),
            Self::Limit { plan, error } => write!(f, "plan `{plan}`: {error}"),
        }
    }
}

impl std::error::Error for PlanError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Limit { error, .. } => Some(error),
            _ => None,
        }
    }
}

impl PlansBuilder {
    /// Adds a plan.
    pub fn plan(mut self, name: &str, limit: LimitBuilder) -> Self {
        self.plans.push((name.to_owned(), limit));
        self
    }

    /// The plan of users that are not registered. Without one they are an error.
    pub fn default_plan(mut self, name: &str) -> Self {
        self.default = Some(name.to_owned());
        self
    }

    /// Checks the plans.
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
            built.default = Some(built.plan(&name)?);
        }
        Ok(built)
    }
}

impl Plans {
    /// Plans of the limit called `limit`.
    pub fn builder(limit: &str) -> PlansBuilder {
        PlansBuilder { limit: limit.to_owned(), plans: Vec::new(), default: None }
    }

    /// Gives a new user a plan.
    pub fn register(&self, user: &str, plan: &str) -> Result<(), PlanError> {
        let plan = self.plan(plan)?;
        let mut users = self.users.write().unwrap_or_else(PoisonError::into_inner);
        if users.contains_key(user) {
            return Err(PlanError::AlreadyRegistered);
        }
        users.insert(user.to_owned(), plan);
        Ok(())
    }

    /// Gives a registered user another plan.
    pub fn change(&self, user: &str, plan: &str) -> Result<(), PlanError> {
        let plan = self.plan(plan)?;
        let mut users = self.users.write().unwrap_or_else(PoisonError::into_inner);
        *users.get_mut(user).ok_or(PlanError::UnknownUser)? = plan;
        Ok(())
    }

    /// Takes a user's plan away.
    pub fn remove(&self, user: &str) -> Result<(), PlanError> {
        let mut users = self.users.write().unwrap_or_else(PoisonError::into_inner);
        users.remove(user).map(drop).ok_or(PlanError::UnknownUser)
    }

    /// The limit of a user: their plan's, or the default plan's.
    pub fn limit_of(&self, user: &str) -> Result<Arc<Limit>, PlanError> {
        self.of(user).map(|plan| plan.limit)
    }

    /// The name of a user's plan, or of the default plan.
    pub fn plan_of(&self, user: &str) -> Result<Arc<str>, PlanError> {
        self.of(user).map(|plan| plan.name)
    }

    fn of(&self, user: &str) -> Result<Plan, PlanError> {
        let users = self.users.read().unwrap_or_else(PoisonError::into_inner);
        users.get(user).or(self.default.as_ref()).cloned().ok_or(PlanError::UnknownUser)
    }

    fn plan(&self, name: &str) -> Result<Plan, PlanError> {
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

    fn story() -> PlansBuilder {
        Plans::builder("api")
            .plan("free", Limit::per_second(50))
            .plan("standard", Limit::per_second(500))
            .plan("pro", Limit::per_second(1000))
    }

    fn passing(plans: &Plans, limiter: &Limiter<MemoryStore, ManualClock>, user: &str) -> usize {
        let limit = plans.limit_of(user).expect("a plan");
        (0..2000).filter(|_| limiter.check_now(&limit, user).is_allowed()).count()
    }

    #[test]
    fn everyone_gets_what_their_plan_says() {
        let plans = story().build().expect("valid");
        let limiter = Limiter::with_clock(MemoryStore::new(), ManualClock::default());
        for (user, plan, second) in [("f", "free", 50), ("s", "standard", 500), ("p", "pro", 1000)] {
            plans.register(user, plan).expect("new");
            assert_eq!(passing(&plans, &limiter, user), second);
        }
    }

    #[test]
    fn a_change_of_plan_gives_nothing_back() {
        let plans = story().build().expect("valid");
        let clock = ManualClock::default();
        let limiter = Limiter::with_clock(MemoryStore::new(), clock.clone());
        plans.register("alice", "free").expect("new");
        assert_eq!(passing(&plans, &limiter, "alice"), 50);
        plans.change("alice", "pro").expect("registered");
        assert_eq!(passing(&plans, &limiter, "alice"), 0);
        clock.advance(std::time::Duration::from_millis(100));
        assert_eq!(passing(&plans, &limiter, "alice"), 100, "from now on at the new rate");
    }

    #[test]
    fn says_what_is_wrong() {
        let plans = story().build().expect("valid");
        plans.register("alice", "free").expect("new");
        assert_eq!(plans.register("alice", "pro"), Err(PlanError::AlreadyRegistered));
        assert_eq!(plans.limit_of("bob"), Err(PlanError::UnknownUser));
        assert_eq!(plans.change("bob", "pro"), Err(PlanError::UnknownUser));
        assert_eq!(plans.remove("bob"), Err(PlanError::UnknownUser));
        let unknown = plans.register("bob", "gold").expect_err("no such plan");
        assert_eq!(unknown.to_string(), "there is no plan `gold`; there are: free, pro, standard");
        assert_eq!(&*plans.plan_of("alice").expect("registered"), "free");
        plans.remove("alice").expect("registered");
        assert_eq!(plans.limit_of("alice"), Err(PlanError::UnknownUser));
        plans.register("alice", "pro").expect("new again");
    }

    #[test]
    fn the_unknown_may_have_a_default_plan() {
        let plans = story().default_plan("free").build().expect("valid");
        assert_eq!(plans.limit_of("anyone").expect("the default").count(), 50);
        assert!(matches!(story().default_plan("gold").build(), Err(PlanError::UnknownPlan { .. })));
    }

    #[test]
    fn bad_plans_are_refused() {
        let zero = story().plan("none", Limit::per_second(0)).build().expect_err("a zero limit");
        assert_eq!(zero.to_string(), "plan `none`: limit `api`: count is 0; use at least 1");
        let mixed =
            story().plan("daily", Limit::per_day(9).fixed_window()).build().expect_err("another algorithm");
        assert!(matches!(mixed, PlanError::MixedPlans(_, plan) if plan == "daily"));
        let twice = story().plan("free", Limit::per_second(1)).build();
        assert_eq!(twice.expect_err("two plans"), PlanError::DuplicatePlan("free".to_owned()));
    }
}
