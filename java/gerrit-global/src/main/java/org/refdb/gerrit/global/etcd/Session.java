package org.refdb.gerrit.global.etcd;

import com.google.common.flogger.FluentLogger;
import java.time.Duration;
import org.refdb.gerrit.global.etcd.GlobalRefException.Refused;

/** A lease of this node in etcd, which is requested when it is first needed. */
public final class Session {
  private static final FluentLogger log = FluentLogger.forEnclosingClass();

  private final Etcd etcd;
  private final Duration duration;
  private long lease;

  /** Creates a session; etcd removes the keys of its lease when {@link #renew} has not been called for the duration. */
  public Session(Etcd etcd, Duration duration) {
    this.etcd = etcd;
    this.duration = duration;
  }

  /** Returns the lease, which is requested from etcd if there is none. */
  public synchronized long lease(Deadline deadline) throws GlobalRefException {
    while (lease == 0) {
      try {
        // A lease whose grant was not answered expires by itself.
        lease = etcd.await(etcd.client().getLeaseClient().grant(duration.toSeconds()), deadline).getID();
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
        log.atWarning().log("a lease of this node in etcd has run out, and its keys with it: %s", e.getMessage());
        lost(current);
        return;
      }
      log.atWarning().log("cannot renew a lease of this node in etcd, tries again: %s", e.getMessage());
    }
  }

  /**
   * Revokes the lease, which removes its keys, also those whose puts are still on their way. If etcd does not answer
   * within the time for one request, the lease expires by itself.
   */
  public void close() {
    long current;
    synchronized (this) {
      current = lease;
      lease = 0;
    }
    Deadline deadline = Deadline.ofOneRequest(etcd.settings());
    boolean isToRevoke = current != 0;
    while (isToRevoke) {
      try {
        etcd.await(etcd.client().getLeaseClient().revoke(current), deadline);
        isToRevoke = false;
      } catch (GlobalRefException e) {
        log.atFine().withCause(e).log("the lease is not revoked, but expires by itself");
        isToRevoke = e instanceof GlobalRefException.NoAnswer && deadline.pause();
      }
    }
  }
}
