package org.refdb.gerrit.plugin;

import com.google.gerrit.common.data.GlobalCapability;
import com.google.gerrit.extensions.annotations.CapabilityScope;
import com.google.gerrit.extensions.annotations.RequiresAnyCapability;
import com.google.gerrit.extensions.restapi.BadRequestException;
import com.google.gerrit.extensions.restapi.ResourceConflictException;
import com.google.gerrit.extensions.restapi.Response;
import com.google.gerrit.extensions.restapi.RestModifyView;
import com.google.gerrit.extensions.restapi.RestReadView;
import com.google.gerrit.server.config.ConfigResource;
import com.google.gerrit.server.project.ProjectResource;
import com.google.inject.Inject;
import java.io.IOException;
import java.util.List;
import org.refdb.gerrit.refs.ProjectStat;
import org.refdb.gerrit.refs.RefdbAdmin;
import org.refdb.gerrit.refs.Verified;

/** The REST endpoints. Who may look at caches may look here, who may maintain the server may do the rest. */
final class Views {
  private Views() {}

  /** No input is needed. */
  static final class Nothing {}

  /** What {@code verify} found. */
  record VerifiedInfo(boolean clean, List<String> differences, List<String> broken) {}

  /** What {@code warm} read. */
  record Warmed(int refs) {}

  /** The input of {@code delete-broken}. */
  static final class BrokenInput {
    String ref;
  }

  /** The input of {@code shadow}. */
  static final class ShadowInput {
    Boolean on;
  }

  /** {@code GET /config/server/refdb~status}: 200 if all is as it should be, else 500, for monitors that look at nothing else. */
  static final class ServerStatus extends ForViewers implements RestReadView<ConfigResource> {
    private final Health health;

    @Inject
    ServerStatus(Health health) {
      this.health = health;
    }

    @Override
    public Response<Health.Report> apply(ConfigResource resource) {
      Health.Report report = health.report();
      return report.good() ? Response.ok(report) : Response.withStatusCode(500, report);
    }
  }

  /** {@code GET /config/server/refdb~stat}. */
  static final class AllStats extends ForViewers implements RestReadView<ConfigResource> {
    private final RefdbAdmin admin;
    private final Visible visible;

    @Inject
    AllStats(RefdbAdmin admin, Visible visible) {
      this.admin = admin;
      this.visible = visible;
    }

    @Override
    public Response<List<ProjectStat>> apply(ConfigResource resource) {
      return Response.ok(visible.of(admin.stats()));
    }
  }

  /** {@code GET /projects/NAME/refdb~stat}. */
  static final class Stat extends ForViewers implements RestReadView<ProjectResource> {
    private final RefdbAdmin admin;

    @Inject
    Stat(RefdbAdmin admin) {
      this.admin = admin;
    }

    @Override
    public Response<ProjectStat> apply(ProjectResource project) {
      return Response.ok(admin.stat(project.getNameKey()));
    }
  }

  /** {@code POST /projects/NAME/refdb~verify}. */
  @RequiresAnyCapability(value = GlobalCapability.MAINTAIN_SERVER, scope = CapabilityScope.CORE)
  static final class Verify implements RestModifyView<ProjectResource, Nothing> {
    private final RefdbAdmin admin;

    @Inject
    Verify(RefdbAdmin admin) {
      this.admin = admin;
    }

    @Override
    public Response<VerifiedInfo> apply(ProjectResource project, Nothing input) throws ResourceConflictException {
      try {
        Verified found = admin.verify(project.getNameKey());
        return Response.ok(new VerifiedInfo(found.differences().isEmpty(), found.differences(), found.broken()));
      } catch (IOException e) {
        throw new ResourceConflictException(Words.of(e), e);
      }
    }
  }

  /** {@code POST /projects/NAME/refdb~flush}. */
  @RequiresAnyCapability(
      value = {GlobalCapability.FLUSH_CACHES, GlobalCapability.MAINTAIN_SERVER},
      scope = CapabilityScope.CORE)
  static final class Flush implements RestModifyView<ProjectResource, Nothing> {
    private final RefdbAdmin admin;

    @Inject
    Flush(RefdbAdmin admin) {
      this.admin = admin;
    }

    @Override
    public Response<ProjectStat> apply(ProjectResource project, Nothing input) {
      admin.flush(project.getNameKey());
      return Response.ok(admin.stat(project.getNameKey()));
    }
  }

  /** {@code POST /projects/NAME/refdb~warm}. */
  @RequiresAnyCapability(value = GlobalCapability.MAINTAIN_SERVER, scope = CapabilityScope.CORE)
  static final class Warm implements RestModifyView<ProjectResource, Nothing> {
    private final RefdbAdmin admin;

    @Inject
    Warm(RefdbAdmin admin) {
      this.admin = admin;
    }

    @Override
    public Response<Warmed> apply(ProjectResource project, Nothing input) throws ResourceConflictException {
      try {
        return Response.ok(new Warmed(admin.warm(project.getNameKey())));
      } catch (IOException e) {
        throw new ResourceConflictException(Words.of(e), e);
      }
    }
  }

  /** {@code POST /projects/NAME/refdb~delete-broken}. */
  @RequiresAnyCapability(value = GlobalCapability.MAINTAIN_SERVER, scope = CapabilityScope.CORE)
  static final class DeleteBroken implements RestModifyView<ProjectResource, BrokenInput> {
    private final RefdbAdmin admin;

    @Inject
    DeleteBroken(RefdbAdmin admin) {
      this.admin = admin;
    }

    @Override
    public Response<String> apply(ProjectResource project, BrokenInput input)
        throws BadRequestException, ResourceConflictException {
      if (input == null || input.ref == null) {
        throw new BadRequestException("say {\"ref\": \"refs/...\"}");
      }
      try {
        if (!admin.deleteBroken(project.getNameKey(), input.ref)) {
          throw new ResourceConflictException(input.ref + " is not broken");
        }
        return Response.ok("deleted " + input.ref);
      } catch (IOException e) {
        throw new ResourceConflictException(Words.of(e), e);
      }
    }
  }

  /** {@code PUT /projects/NAME/refdb~shadow}. */
  @RequiresAnyCapability(value = GlobalCapability.MAINTAIN_SERVER, scope = CapabilityScope.CORE)
  static final class Shadow implements RestModifyView<ProjectResource, ShadowInput> {
    private final RefdbAdmin admin;

    @Inject
    Shadow(RefdbAdmin admin) {
      this.admin = admin;
    }

    @Override
    public Response<ProjectStat> apply(ProjectResource project, ShadowInput input) throws BadRequestException {
      if (input == null || input.on == null) {
        throw new BadRequestException("say {\"on\": true} or {\"on\": false}");
      }
      admin.shadow(project.getNameKey(), input.on);
      return Response.ok(admin.stat(project.getNameKey()));
    }
  }
}
