//! Which node a request is sent to: always the same replica of a partition, because transactions that start on
//! several replicas contend with each other.

use std::sync::Arc;

use scylla::cluster::{ClusterState, NodeRef};
use scylla::errors::{DbError, RequestAttemptError};
use scylla::policies::load_balancing::{FallbackPlan, LoadBalancingPolicy, RoutingInfo};
use scylla::policies::retry::{RequestInfo, RetryDecision, RetryPolicy, RetrySession};
use scylla::routing::Shard;

use crate::error::is_not_executed;

/// The driver's order of replicas for lightweight transactions, starting with the replica of the given index. The
/// driver cannot recognize a transaction by itself, unless the server is ScyllaDB.
#[derive(Debug)]
pub(crate) struct PreferredReplica {
    order: Arc<dyn LoadBalancingPolicy>,
    /// How many replicas to skip, because they have just not responded.
    skip: usize,
}

impl PreferredReplica {
    pub(crate) fn new(order: Arc<dyn LoadBalancingPolicy>, skip: usize) -> Self {
        Self { order, skip }
    }

    /// Returns the first `count` nodes to try.
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
            if nodes.len() > count.saturating_add(self.skip) {
                break;
            }
        }
        if !nodes.is_empty() {
            let skip = self.skip % nodes.len();
            nodes.rotate_left(skip);
        }
        // Looked up by id: what the policy returns cannot outlive the request, which is a local copy.
        let all = cluster.get_nodes_info();
        nodes
            .into_iter()
            .filter_map(|(id, shard)| Some((all.iter().find(|node| node.host_id == id)?, shard)))
            .collect()
    }
}

impl LoadBalancingPolicy for PreferredReplica {
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
        "preferred replica of each partition".to_owned()
    }
}

/// Retries on the next node only if the first one has certainly not executed the request. In all other cases the
/// store finds out itself.
#[derive(Debug)]
pub(crate) struct RetryIfNotExecuted;

impl RetryPolicy for RetryIfNotExecuted {
    fn new_session(&self) -> Box<dyn RetrySession> {
        Box::new(Self)
    }
}

impl RetrySession for RetryIfNotExecuted {
    fn decide_should_retry(&mut self, request: RequestInfo<'_>) -> RetryDecision {
        let retry = match request.error {
            RequestAttemptError::UnableToAllocStreamId => true,
            // Other coordinators may see more live replicas.
            RequestAttemptError::DbError(
                code @ (DbError::Unavailable { .. } | DbError::IsBootstrapping),
                _,
            ) => is_not_executed(code),
            _ => request.is_idempotent,
        };
        if retry { RetryDecision::RetryNextTarget(None) } else { RetryDecision::DontRetry }
    }

    fn reset(&mut self) {}
}
