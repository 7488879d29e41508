//! What was learned, for people to look at.

use crate::account::Account;
use crate::patterns::Patterns;

impl Patterns {
    /// What came of all predictions, of all programs and users.
    pub fn account(&self) -> Account {
        let programs = self.users.values().flat_map(|habits| habits.programs.values());
        programs.fold(Account::default(), |mut sum, program| {
            sum += program.account;
            sum
        })
    }
}
