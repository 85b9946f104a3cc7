package org.refdb.gerrit.global;

import com.google.gerrit.common.data.GlobalCapability;
import com.google.gerrit.extensions.annotations.CapabilityScope;
import com.google.gerrit.extensions.annotations.RequiresAnyCapability;
import com.google.gerrit.extensions.restapi.BadRequestException;
import com.google.gerrit.extensions.restapi.ResourceConflictException;
import com.google.gerrit.extensions.restapi.Response;
import com.google.gerrit.extensions.restapi.RestApiException;
import com.google.gerrit.extensions.restapi.RestModifyView;
import com.google.gerrit.extensions.restapi.RestReadView;
import com.google.gerrit.server.config.ConfigResource;
import com.google.gerrit.server.project.ProjectResource;
import com.google.inject.Inject;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.refdb.gerrit.refs.GlobalSettled;

/** The REST endpoints, with what the SSH commands do. */
final class AdminViews {
  private AdminViews() {}

  /** No input is needed. */
  static final class Nothing {}

  /** What {@code import} did. */
  record Imported(long put, long there, boolean already) {}

  /** A ref that differs. */
  record DifferenceInfo(String ref, String kind, String disk, String etcd, String note) {}

  /** What {@code compare} found. */
  record Compared(boolean clean, boolean imported, boolean complete, long refs, long neverSeen, List<DifferenceInfo> differences) {}

  /** The input of {@code repair}. */
  static final class RepairInput {
    String to;
    List<String> refs;
    boolean intents;
    boolean dryRun;
  }

  /**
   * What {@code repair} did.
   *
   * @param refs a line for each ref
   * @param intents a line for each update that was left undecided
   */
  record Repaired(long repaired, long failed, List<String> refs, long settled, long underWay, List<String> intents) {}

  /** {@code GET /config/server/refdb-global~status}: 200 if all is well, else 500. */
  @RequiresAnyCapability(
      value = {GlobalCapability.VIEW_CACHES, GlobalCapability.MAINTAIN_SERVER},
      scope = CapabilityScope.CORE)
  static final class ShowStatus implements RestReadView<ConfigResource> {
    private final GlobalRefs refs;
    private final Heard heard;

    @Inject
    ShowStatus(GlobalRefs refs, Heard heard) {
      this.refs = refs;
      this.heard = heard;
    }

    @Override
    public Response<Status> apply(ConfigResource resource) {
      Status status = Status.ask(refs, heard);
      return status.isGood() ? Response.ok(status) : Response.withStatusCode(500, status);
    }
  }

  /** What those of a project have in common. */
  abstract static class OnProject<I, O> implements RestModifyView<ProjectResource, I> {
    @Inject Site site;
    @Inject GlobalRefs refs;

    abstract O work(DiskRefs disk, I input) throws RestApiException, IOException, GlobalRefException;

    @Override
    public final Response<O> apply(ProjectResource project, I input) throws RestApiException, IOException {
      try (DiskRefs disk = site.open(project.getName())) {
        return Response.ok(work(disk, input));
      } catch (GlobalRefException e) {
        throw new ResourceConflictException(e.getMessage(), e);
      }
    }
  }

  /** {@code POST /projects/NAME/refdb-global~import}. */
  @RequiresAnyCapability(value = GlobalCapability.MAINTAIN_SERVER, scope = CapabilityScope.CORE)
  static final class ImportRefs extends OnProject<Nothing, Imported> {
    @Override
    Imported work(DiskRefs disk, Nothing input) throws IOException, GlobalRefException {
      Import work = new Import(refs);
      if (work.isDone(disk.project())) {
        return new Imported(0, 0, true);
      }
      Import.Summary summary = work.run(disk, (put, there) -> {});
      return new Imported(summary.put(), summary.there(), false);
    }
  }

  /** {@code POST /projects/NAME/refdb-global~compare}. */
  @RequiresAnyCapability(value = GlobalCapability.MAINTAIN_SERVER, scope = CapabilityScope.CORE)
  static final class CompareRefs extends OnProject<Nothing, Compared> {
    @Override
    Compared work(DiskRefs disk, Nothing input) throws IOException, GlobalRefException {
      List<DifferenceInfo> found = new ArrayList<>();
      Compare.Summary summary =
          new Compare(refs, disk)
              .run(
                  AdminCommands.MOST,
                  one ->
                      found.add(
                          new DifferenceInfo(
                              one.ref(), one.kind().name(), one.disk().orElse(null), one.etcd().orElse(null), one.note())));
      return new Compared(summary.isClean(), summary.imported(), summary.complete(), summary.refs(), summary.neverSeen(), found);
    }
  }

  /** {@code POST /projects/NAME/refdb-global~repair}. */
  @RequiresAnyCapability(value = GlobalCapability.MAINTAIN_SERVER, scope = CapabilityScope.CORE)
  static final class RepairRefs extends OnProject<RepairInput, Repaired> {
    @Inject private Heard heard;

    @Override
    Repaired work(DiskRefs disk, RepairInput input) throws RestApiException, IOException, GlobalRefException {
      Optional<Repair.To> to = Repair.To.of(input == null ? null : input.to);
      if (to.isEmpty() && (input == null || input.to != null || !input.intents) || to.isPresent() && input.intents) {
        throw new BadRequestException(
            "say {\"to\": \"etcd\"} or {\"to\": \"disk\"}: whose values are right; or {\"intents\": true}");
      }
      List<String> intents = new ArrayList<>();
      GlobalSettled settled = heard.settle(disk.project(), input.dryRun, intents::add);
      if (to.isEmpty()) {
        return new Repaired(0, settled.failed(), List.of(), settled.settled(), settled.underWay(), intents);
      }
      List<String> lines = new ArrayList<>();
      List<String> names = input.refs == null ? List.of() : input.refs;
      Repair.Summary summary = new Repair(refs, disk).run(names, AdminCommands.MOST, to.get(), input.dryRun, lines::add);
      return new Repaired(
          summary.repaired(), summary.failed() + settled.failed(), lines, settled.settled(), settled.underWay(), intents);
    }
  }
}
