//! Outages of the central store: what was refilled meanwhile pays for what was granted meanwhile, and only the rest is
//! repaid.

use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use proptest::prelude::*;
use tollgate_conformance::Seed;
use tollgate_core::store::Store;
use tollgate_core::{Action, Limit};
use tollgate_limiter_sync::WhenStale;

use crate::fleet::{Fleet, KEY, LinkState};

/// In milliseconds, as all times below.
const STEP: u64 = 5;
const INTERVAL: u64 = 100;

/// How an outage looks to each node, and when that node reaches the central store again.
#[derive(Clone, Debug)]
struct Outage {
    starts: u64,
    nodes: Vec<(LinkState, u64)>,
}

impl Outage {
    /// Returns an outage for all nodes, which come back one after the other.
    fn of_all(nodes: u64, starts: u64, lasts: u64, apart: u64) -> Self {
        let back = |node| (LinkState::Down, starts + lasts + node * apart);
        Self { starts, nodes: (0..nodes).map(back).collect() }
    }

    fn last_back(&self) -> u64 {
        self.nodes.iter().map(|(_, back)| *back).max().unwrap_or_default()
    }
}

/// The balance of a bucket that learns of every grant at once.
#[derive(Clone, Debug)]
struct Account {
    rate: f64,
    capacity: f64,
    /// What is left if all that overflows is lost.
    strict: f64,
    /// What is left if nothing that overflows is lost from the start of the outage on.
    generous: f64,
}

impl Account {
    fn of(limit: &Limit) -> Self {
        let capacity = f64::from(limit.capacity());
        Self { rate: f64::from(limit.count()), capacity, strict: capacity, generous: capacity }
    }

    fn refill(&mut self, millis: u64, during: bool) {
        let refilled = self.rate * Duration::from_millis(millis).as_secs_f64();
        self.strict = (self.strict + refilled).min(self.capacity);
        self.generous += refilled;
        if !during {
            self.generous = self.generous.min(self.capacity);
        }
    }

    fn grant(&mut self, tokens: u32) {
        self.strict -= f64::from(tokens);
        self.generous -= f64::from(tokens);
    }
}

/// What happened in a run.
struct Run {
    /// What passed in each step, and the account after it.
    steps: Vec<(u32, Account)>,
    /// The central balance in the end.
    left: f64,
}

impl Run {
    /// Returns what passed in so many milliseconds.
    fn passed(&self, from: u64, millis: u64) -> f64 {
        let step = |at: u64| usize::try_from(at / STEP).expect("small");
        self.steps[step(from)..step(from + millis)].iter().map(|(passed, _)| f64::from(*passed)).sum()
    }

    /// Returns the account at an instant.
    fn account(&self, at: u64) -> &Account {
        &self.steps[usize::try_from(at / STEP).expect("small")].1
    }
}

/// Runs a fleet through an outage. `demand` says how many requests a node receives in a step.
async fn run(
    limit: &Limit,
    when_stale: WhenStale,
    outage: &Outage,
    until: u64,
    seed: u64,
    demand: impl Fn(&mut Seed, u64, u64) -> u64,
) -> Run {
    let fleet = Fleet::of(outage.nodes.len(), |node| node.when_stale(when_stale));
    let mut random = Seed::new(seed);
    let mut next: Vec<u64> = fleet.nodes.iter().map(|_| random.below(INTERVAL)).collect();
    let (mut steps, mut account) = (Vec::new(), Account::of(limit));
    for now in (0..until).step_by(usize::try_from(STEP).expect("small")) {
        fleet.advance(Duration::from_millis(STEP));
        account.refill(STEP, now >= outage.starts);
        let mut passed = 0;
        for (node, (state, back)) in outage.nodes.iter().enumerate() {
            let away = now >= outage.starts && now < *back;
            fleet.nodes[node].store().set(if away { *state } else { LinkState::Up });
            if now >= next[node] {
                // Fails during the outage.
                let _ = fleet.nodes[node].sync_now().await;
                next[node] = now + INTERVAL * (90 + random.below(21)) / 100;
            }
            for _ in 0..demand(&mut random, node as u64, now) {
                passed += fleet.take(node, limit, 1).await.granted();
            }
        }
        account.grant(passed);
        steps.push((passed, account.clone()));
    }
    fleet.sync().await;
    fleet.sync().await;
    let central = fleet.peek_central(limit).await;
    let debt = u32::try_from(central.debt()).expect("small");
    Run { steps, left: f64::from(central.remaining()) - f64::from(debt) }
}

/// Returns how many requests a node receives in a step whose demand is so many percent of its part of the rate.
fn requests(random: &mut Seed, limit: &Limit, nodes: usize, percent: u64) -> u64 {
    let per_mille = u64::from(limit.count()) * percent * STEP / 100 / nodes as u64;
    per_mille / 1_000 + u64::from(random.below(1_000) < per_mille % 1_000)
}

/// The fleet stays at about its limit without the central store, and none of it is repaid again.
#[tokio::test]
async fn five_nodes_go_on_as_soon_as_the_central_store_is_back() {
    let limit = Limit::per_second(1_000).burst(100).build("api").expect("valid");
    for (seconds, when_stale) in [10, 30]
        .into_iter()
        .flat_map(|seconds| [(seconds, WhenStale::Continue), (seconds, WhenStale::share_of(5))])
    {
        let outage = Outage::of_all(5, 3_000, seconds * 1_000, 50);
        let (starts, last) = (outage.starts, outage.last_back());
        let demand = |random: &mut Seed, _, _| requests(random, &limit, 5, 200);
        let run = run(&limit, when_stale, &outage, last + 6_000, seconds, demand).await;
        let during = run.passed(starts, last - starts) / Duration::from_millis(last - starts).as_secs_f64();
        assert!((900.0..=1_050.0).contains(&during), "{during} per second, {seconds} s, {when_stale:?}");
        for second in 0..5 {
            let passed = run.passed(last + INTERVAL + second * 1_000, 1_000);
            assert!(passed >= 800.0, "{passed} in second {second} after {seconds} s, {when_stale:?}");
        }
    }
}

/// It is not known when a period of it started, so that one of them may be repaid although it was within the limit.
#[tokio::test]
async fn an_interval_bucket_repays_a_period_at_most() {
    let limit = Limit::per_second(1_000).refill_by_interval().build("api").expect("valid");
    let outage = Outage::of_all(5, 3_000, 10_000, 50);
    let (starts, last) = (outage.starts, outage.last_back());
    let demand = |random: &mut Seed, _, _| requests(random, &limit, 5, 200);
    let run = run(&limit, WhenStale::share_of(5), &outage, last + 6_000, 1, demand).await;
    let during = run.passed(starts, last - starts) / Duration::from_millis(last - starts).as_secs_f64();
    assert!((900.0..=1_100.0).contains(&during), "{during} per second");
    let passed = run.passed(last + INTERVAL, 5_000);
    assert!(passed >= 3_500.0, "{passed} in five seconds");
}

/// Returns two nodes, the first of which has grants that are late.
async fn with_late_grants() -> (Fleet, Limit) {
    let (fleet, limit) = (Fleet::of(2, |node| node), Limit::per_day(1_000).build("slow").expect("valid"));
    for node in [0, 1, 0] {
        assert!(fleet.take(node, &limit, 10).await.is_allowed());
        fleet.sync().await;
    }
    let link = fleet.nodes[0].store();
    link.set(LinkState::Down);
    assert!(fleet.take(0, &limit, 1).await.is_allowed());
    assert!(fleet.nodes[0].sync_now().await.is_err());
    assert!(fleet.take(0, &limit, 49).await.is_allowed());
    fleet.advance(Duration::from_secs(1));
    link.set(LinkState::Up);
    fleet.nodes[0].sync_now().await.expect("the central store answers");
    (fleet, limit)
}

async fn debited(fleet: &Fleet, limit: &Limit) -> u32 {
    limit.capacity() - fleet.peek_central(limit).await.remaining()
}

#[tokio::test]
async fn late_grants_of_a_bucket_that_never_was_full_count() {
    let (fleet, limit) = with_late_grants().await;
    fleet.nodes[0].sync_now().await.expect("the central store answers");
    assert_eq!(debited(&fleet, &limit).await, 31, "only recorded");
    assert_eq!(fleet.nodes[0].stats().pending, 1);
    assert_eq!(fleet.take(0, &limit, 0).await.remaining(), limit.capacity() - 80, "the node knows");
    fleet.nodes[0].sync_now().await.expect("the central store answers");
    assert_eq!(debited(&fleet, &limit).await, 80);
    assert_eq!(fleet.nodes[0].stats().pending, 0);
}

#[tokio::test]
async fn a_refund_during_an_outage_reduces_what_is_late() {
    let (fleet, limit) = with_late_grants().await;
    let refund = limit.charge(KEY).with_cost(20).with_action(Action::Refund { at: None });
    assert!(fleet.nodes[0].decide_one(&refund, &fleet.clock).await.expect("decided locally").is_allowed());
    fleet.sync().await;
    assert_eq!(debited(&fleet, &limit).await, 60);
}

#[tokio::test]
async fn late_grants_are_settled_before_the_central_store_decides() {
    let (fleet, limit) = with_late_grants().await;
    fleet.nodes[0].export(&limit, KEY.into(), fleet.now()).await.expect("the central store answers");
    assert_eq!(debited(&fleet, &limit).await, 80, "before the export");
    let (fleet, limit) = with_late_grants().await;
    let reset = limit.charge(KEY).with_action(Action::Reset);
    assert!(fleet.nodes[0].decide_one(&reset, &fleet.clock).await.expect("decided centrally").is_allowed());
    fleet.sync().await;
    assert_eq!(debited(&fleet, &limit).await, 0, "they were before the reset");
}

#[tokio::test]
async fn closing_settles_late_grants() {
    let (fleet, limit) = with_late_grants().await;
    fleet.nodes[0].store().set(LinkState::Down);
    assert!(fleet.nodes[0].sync_now().await.is_err());
    assert!(fleet.take(0, &limit, 5).await.is_allowed());
    fleet.advance(Duration::from_secs(1));
    fleet.nodes[0].store().set(LinkState::Up);
    let mut closed = pin!(fleet.nodes[0].close(Duration::from_secs(5)));
    while closed.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
        // It pauses between two rounds.
        fleet.advance(Duration::from_millis(50));
    }
    assert_eq!(debited(&fleet, &limit).await, 85);
}

#[tokio::test]
async fn late_grants_of_a_limit_with_a_large_rate_count() {
    // More than a record can count in ten minutes, or a charge can carry.
    let limit = Limit::per_second(900_000_000).burst(1_000).build("huge").expect("valid");
    let fleet = Fleet::of(2, |node| node);
    for node in [0, 1, 0] {
        assert!(fleet.take(node, &limit, 1_000).await.is_allowed());
        fleet.sync().await;
        fleet.advance(Duration::from_micros(1));
    }
    let start = fleet.now();
    for _ in 0..6 {
        let debit = limit.charge(KEY).with_cost(900_000_000).with_action(Action::Debit { at: None });
        assert!(fleet.nodes[0].decide_one(&debit, &fleet.clock).await.expect("decided locally").is_allowed());
        fleet.advance(Duration::from_millis(500));
    }
    fleet.sync().await;
    // Six seconds of the limit in three.
    let owed = fleet.peek_central(&limit).await.debt() / 900_000;
    assert!((2_900..3_100).contains(&owed), "{owed} ms, after {:?}", fleet.now().since(start));
}

/// A random outage.
#[derive(Clone, Debug)]
struct Scenario {
    rate: u32,
    burst: u32,
    outage: Outage,
    when_stale: WhenStale,
    /// The demand of all nodes in percent of the limit, if it is steady.
    percent: u64,
    seed: u64,
}

impl Scenario {
    fn limit(&self) -> Limit {
        Limit::per_second(self.rate).burst(self.burst).build("api").expect("valid")
    }
}

fn scenarios() -> impl Strategy<Value = Scenario> {
    let faults =
        prop_oneof![Just(LinkState::Down), Just(LinkState::LostAnswer), Just(LinkState::LostRequest)];
    let fleet = (2..=6_u32, 20..200_u32, 1..=20_u32, any::<bool>(), 150..300_u64);
    // Deltas of an outage of less than four intervals are not late, and count in full. In one outage of three, a node
    // can reach the central store all the time.
    let outage = (2_000..3_000_u64, 600..12_000_u64, 0..=500_u64, faults, 0..3_u64);
    (fleet, outage, any::<u64>()).prop_map(|(fleet, (starts, lasts, apart, state, reachable), seed)| {
        let (nodes, rate_of_each, burst, share, percent) = fleet;
        let rate = nodes * rate_of_each;
        let mut outage = Outage::of_all(nodes.into(), starts, lasts, apart);
        for (seen, _) in &mut outage.nodes {
            *seen = state;
        }
        if reachable == 0 {
            outage.nodes[0].1 = 0;
        }
        let when_stale = if share { WhenStale::share_of(nodes) } else { WhenStale::Continue };
        Scenario { rate, burst: (rate * burst / 10).max(1), outage, when_stale, percent, seed }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// The central balance becomes that of a bucket that knew of every grant. It does not know when what was lost
    /// during the outage overflowed, so it may be as much as if nothing had. Half a second of the limit is tolerated
    /// in either direction: deltas that were in flight when the outage began count in full (an interval), and what
    /// others granted before the first late grant of a node is an estimate (some intervals, for a node without demand
    /// at first).
    #[test]
    fn what_was_granted_beyond_the_limit_is_repaid_and_no_more(scenario in scenarios()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let (limit, outage) = (scenario.limit(), &scenario.outage);
        // From the outage on, each node has another demand in every second, and none in some.
        let demand = |random: &mut Seed, node: u64, now: u64| {
            let mut second = Seed::new(scenario.seed ^ node << 32 ^ (now / 1_000));
            let percent = match now >= outage.starts {
                false => scenario.percent,
                true if second.once_in(5) => 0,
                true => 40 + second.below(260),
            };
            requests(random, &limit, outage.nodes.len(), percent)
        };
        let until = outage.last_back() + 3 * INTERVAL;
        let run = runtime.block_on(run(&limit, scenario.when_stale, outage, until, scenario.seed, demand));
        let account = run.account(until - STEP);
        let (tolerated, left) = (f64::from(scenario.rate) / 2.0 + 2.0, run.left);
        let (least, most) = (account.strict - tolerated, account.generous.min(account.capacity) + tolerated);
        prop_assert!((least..=most).contains(&left), "{left} is left, {account:?}");
    }

    /// From an interval after the last node is back, at least 80 % of the limit passes in every second, unless more
    /// than the limit was granted: that is repaid first. A part of a token on each node is rounding.
    #[test]
    fn the_limit_passes_again_at_once(scenario in scenarios()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let (limit, outage) = (scenario.limit(), &scenario.outage);
        let demand = |random: &mut Seed, _, _| requests(random, &limit, outage.nodes.len(), scenario.percent);
        let (last, rate) = (outage.last_back(), f64::from(scenario.rate));
        let until = last + INTERVAL + 3_000;
        let run = runtime.block_on(run(&limit, scenario.when_stale, outage, until, scenario.seed, demand));
        let debt = -run.account(last).strict.min(0.0);
        let rounding = f64::from(u32::try_from(outage.nodes.len()).expect("small"));
        for seconds in 1..=3_u32 {
            let second = |number: u32| last + INTERVAL + u64::from(number) * 1_000;
            let (passed, least) = if debt == 0.0 {
                (run.passed(second(seconds - 1), 1_000), 0.8 * rate)
            } else {
                let repaid = debt + rate / 5.0;
                (run.passed(second(0), u64::from(seconds) * 1_000), 0.8 * rate * f64::from(seconds) - repaid)
            };
            prop_assert!(passed >= least - rounding, "{passed} of {least} after {seconds} s, debt {debt}");
        }
    }
}
