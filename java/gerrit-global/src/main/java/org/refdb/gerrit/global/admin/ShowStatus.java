package org.refdb.gerrit.global.admin;

import com.google.gerrit.common.data.GlobalCapability;
import com.google.gerrit.extensions.annotations.CapabilityScope;
import com.google.gerrit.extensions.annotations.RequiresAnyCapability;
import com.google.gerrit.extensions.restapi.Response;
import com.google.gerrit.extensions.restapi.RestReadView;
import com.google.gerrit.server.config.ConfigResource;
import com.google.gerrit.sshd.CommandMetaData;
import com.google.inject.Inject;
import org.refdb.gerrit.global.transaction.GlobalRefs;
import org.refdb.gerrit.global.watch.WatchService;

/** Reports the state of etcd's members and of this node. */
public final class ShowStatus {
  private final GlobalRefs refs;
  private final WatchService watch;

  @Inject
  ShowStatus(GlobalRefs refs, WatchService watch) {
    this.refs = refs;
    this.watch = watch;
  }

  Status run() {
    return Status.ask(refs, watch);
  }

  /** {@code refdb-global status}. */
  @RequiresAnyCapability(
      value = {GlobalCapability.VIEW_CACHES, GlobalCapability.MAINTAIN_SERVER},
      scope = CapabilityScope.CORE)
  @CommandMetaData(name = "status", description = "What etcd and this node say; fails if something is wrong")
  public static final class Command extends AdminCommand {
    @Inject private ShowStatus operation;

    @Override
    void execute() throws UnloggedFailure {
      Status status = operation.run();
      status.text().forEach(stdout::println);
      if (!status.isGood()) {
        throw die("not all is well");
      }
    }
  }

  /** {@code GET /config/server/refdb-global~status}: 200 if all is well, else 500. */
  @RequiresAnyCapability(
      value = {GlobalCapability.VIEW_CACHES, GlobalCapability.MAINTAIN_SERVER},
      scope = CapabilityScope.CORE)
  public static final class Endpoint implements RestReadView<ConfigResource> {
    private final ShowStatus operation;

    @Inject
    Endpoint(ShowStatus operation) {
      this.operation = operation;
    }

    @Override
    public Response<Status> apply(ConfigResource resource) {
      Status status = operation.run();
      return status.isGood() ? Response.ok(status) : Response.withStatusCode(500, status);
    }
  }
}
