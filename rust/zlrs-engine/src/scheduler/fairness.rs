//! Whose turn it is: tenants share the rows of the steps equally while they compete.

use std::collections::HashMap;

use crate::prefix::Tenant;

/// Rows computed by tenant, as in fair queueing by virtual time: the tenant that has had least comes first, and
/// one that was away comes back as if it had had as much as the least of those that stayed.
#[derive(Debug, Default)]
pub(super) struct Fairness {
    rows: HashMap<Tenant, u64>,
    floor: u64,
}

impl Fairness {
    /// Rows a tenant has had; the least comes first.
    pub fn served(&self, tenant: &Tenant) -> u64 {
        self.rows.get(tenant).map_or(self.floor, |&rows| rows.max(self.floor))
    }

    pub fn charge(&mut self, tenant: &Tenant, rows: usize) {
        let served = self.served(tenant) + rows as u64;
        self.rows.insert(*tenant, served);
    }

    /// Raises the floor to the least of the tenants that have requests, and forgets those at or below it.
    pub fn settle<'a>(&mut self, present: impl Iterator<Item = &'a Tenant>) {
        if let Some(least) = present.map(|tenant| self.served(tenant)).min() {
            self.floor = least;
            self.rows.retain(|_, rows| *rows > least);
        } else {
            // Nobody competes: everyone begins anew.
            self.rows.clear();
            self.floor = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Tenant = Tenant([1; 32]);
    const B: Tenant = Tenant([2; 32]);

    #[test]
    fn whoever_had_least_comes_first_and_nobody_saves_up() {
        let mut fairness = Fairness::default();
        fairness.charge(&A, 100);
        assert!(fairness.served(&B) < fairness.served(&A));
        fairness.settle([&A].into_iter());
        // B was away while A was served: it does not get those rows later.
        assert_eq!(fairness.served(&B), fairness.served(&A));
        fairness.charge(&A, 10);
        fairness.charge(&B, 4);
        fairness.settle([&A, &B].into_iter());
        assert_eq!(fairness.served(&A) - fairness.served(&B), 6);
        fairness.settle(std::iter::empty());
        assert_eq!((fairness.served(&A), fairness.rows.len()), (0, 0));
    }
}
