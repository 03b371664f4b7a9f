//! Which node is asked: always the same replica of a partition, because transactions that begin on several of them get
//! in each other's way.

use std::sync::Arc;

use scylla::cluster::{ClusterState, NodeRef};
use scylla::errors::{DbError, RequestAttemptError};
use scylla::policies::load_balancing::{FallbackPlan, LoadBalancingPolicy, RoutingInfo};
use scylla::policies::retry::{RequestInfo, RetryDecision, RetryPolicy, RetrySession};
use scylla::routing::Shard;

use crate::error::changes_nothing;

/// The driver's own order of replicas, as it is for transactions, from the one on whose turn it is. The driver cannot tell by
/// itself that a statement is one, unless ScyllaDB says so.
#[derive(Debug)]
pub(crate) struct Replicas {
    order: Arc<dyn LoadBalancingPolicy>,
    /// How many to skip: those that have just not answered.
    turn: usize,
}

impl Replicas {
    pub(crate) fn new(order: Arc<dyn LoadBalancingPolicy>, turn: usize) -> Self {
        Self { order, turn }
    }

    /// The first `count` nodes to ask.
    fn plan<'a>(
        &self,
        request: &RoutingInfo<'_>,
        cluster: &'a ClusterState,
        count: usize,
    ) -> Vec<(NodeRef<'a>, Option<Shard>)> {
        let mut request = request.clone();
        request.is_confirmed_lwt = true;
        let first = self.order.pick(&request, cluster);
        let all = first.into_iter().chain(self.order.fallback(&request, cluster));
        let mut nodes = Vec::new();
        for (node, shard) in all {
            if !nodes.iter().any(|(known, _)| *known == node.host_id) {
                nodes.push((node.host_id, shard));
            }
            if nodes.len() > count.saturating_add(self.turn) {
                break;
            }
        }
        if !nodes.is_empty() {
            let turn = self.turn % nodes.len();
            nodes.rotate_left(turn);
        }
        // By their ids, because what the policy returns lives no longer than the request, of which ours is a copy.
        let all = cluster.get_nodes_info();
        nodes
            .into_iter()
            .filter_map(|(id, shard)| Some((all.iter().find(|node| node.host_id == id)?, shard)))
            .collect()
    }
}

impl LoadBalancingPolicy for Replicas {
    fn pick<'a>(
        &'a self,
        request: &'a RoutingInfo<'_>,
        cluster: &'a ClusterState,
    ) -> Option<(NodeRef<'a>, Option<Shard>)> {
        self.plan(request, cluster, 1).into_iter().next()
    }

    fn fallback<'a>(&'a self, request: &'a RoutingInfo<'_>, cluster: &'a ClusterState) -> FallbackPlan<'a> {
        Box::new(self.plan(request, cluster, usize::MAX).into_iter())
    }

    fn name(&self) -> String {
        "one replica of each partition".to_owned()
    }
}

/// Asks the next node only if this one has certainly done nothing. What may have been done is for the store to find out.
#[derive(Debug)]
pub(crate) struct IfNothingHappened;

impl RetryPolicy for IfNothingHappened {
    fn new_session(&self) -> Box<dyn RetrySession> {
        Box::new(Self)
    }
}

impl RetrySession for IfNothingHappened {
    fn decide_should_retry(&mut self, request: RequestInfo<'_>) -> RetryDecision {
        let next = match request.error {
            RequestAttemptError::UnableToAllocStreamId => true,
            // Other coordinators may see more replicas alive.
            RequestAttemptError::DbError(
                code @ (DbError::Unavailable { .. } | DbError::IsBootstrapping),
                _,
            ) => changes_nothing(code),
            _ => request.is_idempotent,
        };
        if next { RetryDecision::RetryNextTarget(None) } else { RetryDecision::DontRetry }
    }

    fn reset(&mut self) {}
}
