//! Requests that outlive their caller: for what must be finished even if nobody waits for it any more.

use tollgate_core::{Action, Charge, Key, LeaseId, Limit, OperationId, Request};

/// A request with everything it speaks of.
#[derive(Clone, Debug)]
pub(crate) struct OwnedRequest {
    charges: Vec<OwnedCharge>,
    pub(crate) id: Option<OperationId>,
}

#[derive(Clone, Debug)]
struct OwnedCharge {
    limit: Limit,
    namespace: Vec<u8>,
    entity: Vec<u8>,
    cost: u32,
    action: Action,
    lease: LeaseId,
}

impl OwnedRequest {
    pub(crate) fn new(request: Request<'_>) -> Self {
        let charges = request
            .charges()
            .iter()
            .map(|charge| OwnedCharge {
                limit: charge.limit().clone(),
                namespace: charge.key().namespace().to_vec(),
                entity: charge.key().entity().to_vec(),
                cost: charge.get_cost(),
                action: charge.get_action(),
                lease: charge.get_lease(),
            })
            .collect();
        Self { charges, id: request.id() }
    }

    /// The charges, to make a [request](Self::request) of.
    pub(crate) fn charges(&self) -> Vec<Charge<'_>> {
        self.charges
            .iter()
            .map(|charge| {
                charge
                    .limit
                    .charge(Key::new(&charge.namespace, &charge.entity))
                    .cost(charge.cost)
                    .action(charge.action)
                    .lease(charge.lease)
            })
            .collect()
    }

    pub(crate) fn request<'a>(&self, charges: &'a [Charge<'a>]) -> Request<'a> {
        match self.id {
            Some(id) => Request::new(charges).with_id(id),
            None => Request::new(charges),
        }
    }
}
