package org.refdb.gerrit.global.etcd;

import com.google.common.flogger.FluentLogger;
import org.refdb.gerrit.global.etcd.GlobalRefException.Refused;

/** The lease of this node, to which all of its locks are attached. */
public final class Session {
  private static final FluentLogger log = FluentLogger.forEnclosingClass();

  private final Etcd etcd;
  private long lease;

  public Session(Etcd etcd) {
    this.etcd = etcd;
  }

  /** Returns the lease, which is requested from etcd if there is none. */
  public synchronized long lease(Deadline deadline) throws GlobalRefException {
    while (lease == 0) {
      try {
        // A lease whose grant was not answered expires by itself.
        lease = etcd.await(etcd.client().getLeaseClient().grant(etcd.settings().lease().toSeconds()), deadline).getID();
      } catch (GlobalRefException.NoAnswer e) {
        if (!deadline.pause()) {
          throw e;
        }
      }
    }
    return lease;
  }

  /** Forgets a lease that etcd reported as expired. */
  public synchronized void lost(long gone) {
    if (lease == gone) {
      lease = 0;
    }
  }

  /** Renews the lease; to be called several times within its duration. */
  public void renew() {
    long current;
    synchronized (this) {
      current = lease;
    }
    if (current == 0) {
      return;
    }
    try {
      Deadline deadline = Deadline.ofOneRequest(etcd.settings());
      if (etcd.await(etcd.client().getLeaseClient().keepAliveOnce(current), deadline).getTTL() <= 0) {
        throw new Refused("its time is over", null, true);
      }
    } catch (GlobalRefException e) {
      if (e instanceof Refused refused && refused.leaseIsGone()) {
        log.atWarning().log("this node's lease in etcd has run out, and its locks with it: %s", e.getMessage());
        lost(current);
        return;
      }
      log.atWarning().log("cannot renew this node's lease in etcd, tries again: %s", e.getMessage());
    }
  }

  public void close() {
    long current;
    synchronized (this) {
      current = lease;
      lease = 0;
    }
    if (current != 0) {
      try {
        etcd.await(
            etcd.client().getLeaseClient().revoke(current),
            Deadline.ofOneRequest(etcd.settings()));
      } catch (GlobalRefException e) {
        log.atFine().withCause(e).log("the lease is not revoked, but expires by itself");
      }
    }
  }
}
