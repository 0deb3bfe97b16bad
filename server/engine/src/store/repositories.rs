//! Registered repositories.

use opkit_domain::access::Scope;
use opkit_domain::ids::RepositoryId;
use opkit_domain::objective::Integration;
use opkit_domain::view::RepoView;

use super::{Store, Tx};
use crate::clock::now_ms;
use crate::error::{Error, Result};

/// A repository row.
#[derive(Debug, Clone, sqlx::FromRow)]
pub(crate) struct RepoRow {
    pub(crate) id: i64,
    pub(crate) name: String,
    pub(crate) source: String,
    pub(crate) base: String,
    pub(crate) setup: Option<String>,
    pub(crate) verify: Option<String>,
    pub(crate) integrate: String,
}

impl RepoRow {
    pub(crate) fn id(&self) -> RepositoryId {
        RepositoryId(self.id)
    }

    pub(crate) fn integrate(&self) -> Integration {
        self.integrate.parse().unwrap_or(Integration::Keep)
    }
}

/// What a new repository row holds.
pub(crate) struct NewRepoRow<'a> {
    pub(crate) name: &'a str,
    pub(crate) source: &'a str,
    pub(crate) base: &'a str,
    pub(crate) verify: Option<&'a str>,
    pub(crate) integrate: Integration,
}

impl Store {
    pub(crate) async fn repo(&self, scope: Scope, id: RepositoryId) -> Result<RepoRow> {
        let row: Option<RepoRow> = sqlx::query_as(
            "SELECT id, name, source, base, setup, verify, integrate FROM repository
             WHERE client_id = $1 AND id = $2",
        )
        .bind(scope.client.0)
        .bind(id.0)
        .fetch_optional(&self.read)
        .await?;
        row.ok_or_else(|| Error::NotFound("That repository is not here.".into()))
    }

    pub(crate) async fn repo_by_name(&self, scope: Scope, name: &str) -> Result<Option<RepoRow>> {
        Ok(sqlx::query_as(
            "SELECT id, name, source, base, setup, verify, integrate FROM repository
             WHERE client_id = $1 AND name = $2",
        )
        .bind(scope.client.0)
        .bind(name)
        .fetch_optional(&self.read)
        .await?)
    }

    pub(crate) async fn repos(&self, scope: Scope) -> Result<Vec<RepoView>> {
        type Row = (i64, String, String, String, Option<String>, String, i64);
        let rows: Vec<Row> = sqlx::query_as(
            "SELECT r.id, r.name, r.source, r.base, r.verify, r.integrate,
                    (SELECT COUNT(*) FROM objective o WHERE o.repository_id = r.id)
             FROM repository r WHERE r.client_id = $1 ORDER BY r.name",
        )
        .bind(scope.client.0)
        .fetch_all(&self.read)
        .await?;
        Ok(rows
            .into_iter()
            .map(|(id, name, source, base, verify, integrate, objectives)| RepoView {
                id: RepositoryId(id),
                name,
                source,
                base,
                verify,
                integrate: integrate.parse().unwrap_or(Integration::Keep),
                objectives: objectives as u32,
            })
            .collect())
    }
}

/// Inserts a repository and gives its number.
pub(crate) async fn insert(tx: &mut Tx, scope: Scope, new: &NewRepoRow<'_>) -> Result<RepositoryId> {
    let made = sqlx::query(
        "INSERT INTO repository (client_id, name, source, base, verify, integrate, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
    )
    .bind(scope.client.0)
    .bind(new.name)
    .bind(new.source)
    .bind(new.base)
    .bind(new.verify)
    .bind(new.integrate.as_str())
    .bind(now_ms())
    .execute(&mut **tx)
    .await;
    match made {
        Ok(made) => Ok(RepositoryId(made.last_insert_rowid())),
        Err(sqlx::Error::Database(error)) if error.is_unique_violation() => Err(Error::Conflict(format!(
            "A repository named “{}” is registered already. Give another name.",
            new.name
        ))),
        Err(error) => Err(error.into()),
    }
}
